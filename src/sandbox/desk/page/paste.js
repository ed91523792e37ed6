// The dialog for an envelope of one's own: start from an example, paste, be told which field is wrong.

const $ = (id) => document.getElementById(id);

function complain(text) {
  $("wrong").textContent = text;
  $("json").setAttribute("aria-invalid", String(text !== ""));
}

/** Makes the dialog work; `ask` sends a request, `tell` says something. */
export function wirePaste({ ask, tell }) {
  $("show-paste").addEventListener("click", () => {
    $("paste").showModal();
    $("json").focus();
  });
  $("json").addEventListener("input", () => complain(""));
  $("draft").addEventListener("change", async () => {
    if (!$("draft").value) return;
    try {
      $("json").value = JSON.stringify(await ask("/draft", { example: $("draft").value }), null, 2);
      complain("");
    } catch (error) {
      complain(error.message);
    }
  });
  $("subscribe").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(await ask("/subscription"), null, 2));
      tell("a fresh subscription is on the clipboard: paste it as recipient.push_subscription");
    } catch (error) {
      complain(error.message);
    }
  });
  $("paste").querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { id } = await ask("/paste", { text: $("json").value, anyway: $("anyway").checked });
      complain("");
      $("paste").close();
      tell(`${id ?? "an envelope"} is in the outbox`);
    } catch (error) {
      complain(error.field ? `${error.field}: ${error.message}` : error.message);
      $("json").focus();
    }
  });
}
