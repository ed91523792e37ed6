// Takes the page's own next state from the server every two seconds, so that there is one template for it.

const EVERY = 2000;
const live = document.getElementById("live");

async function refresh() {
  // A hidden page asks for nothing, and who marks some text wants to keep it.
  if (document.hidden || !document.getSelection().isCollapsed) return;
  try {
    const answer = await fetch("/", { signal: AbortSignal.timeout(EVERY) });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const scrolled = document.querySelector(".scroll")?.scrollLeft ?? 0;
    const focused = document.activeElement?.className;
    document.title = next.title;
    document.querySelector("main").replaceWith(next.querySelector("main"));
    const scroll = document.querySelector(".scroll");
    if (scroll) scroll.scrollLeft = scrolled;
    if (focused === "scroll") scroll?.focus();
    if (live.textContent !== "live") live.textContent = "live";
  } catch {
    live.textContent = "the worker does not answer";
  }
}

setInterval(refresh, EVERY);
refresh();
