//! The sandbox's page, with a worker that drains its outbox.

use delivery_worker::http::client_builder;
use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::browser::Browser;
use crate::process::Process;

/// The sandbox, a worker, and a browser that shows the page.
pub(crate) struct Desk {
    pub(crate) browser: Browser,
    pub(crate) page: String,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) sandbox: Process,
    _worker: Option<Process>,
}

impl Desk {
    /// All three.
    pub(crate) async fn start() -> Desk {
        let mut desk = Desk::without_worker("0").await;
        let quick = [
            ("DELIVERY_POLL_INTERVAL", "200ms"),
            ("DELIVERY_RETRY_BASE", "200ms"),
            ("DELIVERY_RETRY_MAX", "1s"),
            ("DELIVERY_ADMIN_ADDR", "off"),
        ];
        let quick = quick.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env: Vec<_> = desk.env.iter().cloned().chain(quick).collect();
        desk._worker = Some(Process::worker(&["run"], &env));
        desk
    }

    /// The sandbox and the browser.
    pub(crate) async fn without_worker(page_port: &str) -> Desk {
        let (sandbox, page, env) = sandbox(page_port).await;
        let browser = Browser::start().await;
        browser.open(&page).await;
        browser.until("document.querySelector('#link').textContent === 'live'").await;
        browser.until("document.querySelectorAll('#examples button').length === 7").await;
        Desk { browser, page, env, sandbox, _worker: None }
    }

    /// Enqueues the example of this label, and waits until it is the newest envelope.
    pub(crate) async fn enqueue(&self, label: &str) {
        let rows = "document.querySelectorAll('#rows tr').length";
        let before = self.browser.value(rows).await;
        self.browser.press(label).await;
        self.browser.until(&format!("{rows} > {before}")).await;
    }

    /// Waits until the newest envelope has this status; its id.
    pub(crate) async fn newest_is(&self, status: &str) -> String {
        let row = "document.querySelector('#rows tr')";
        let is = format!(
            "{row}.querySelector('.pill').textContent === '{status}' && {row}.querySelector('button').textContent"
        );
        self.browser.until(&is).await.as_str().unwrap().to_owned()
    }

    async fn end(self) {
        assert_eq!(self.browser.wrongs().await, Vec::<String>::new());
        self.browser.close().await;
    }
}

pub(crate) async fn sandbox(page_port: &str) -> (Process, String, Vec<(String, String)>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worker.env");
    let free = ["--seam-port", "0", "--resend-port", "0", "--push-port", "0"];
    let mut arguments = vec!["sandbox", "--page-port", page_port, "--env", file.to_str().unwrap()];
    arguments.extend(free);
    let sandbox = Process::worker(&arguments, &[]);
    let page = |line: &str| line.trim().strip_prefix("page ").map(|url| url.trim().to_owned());
    let page = sandbox.line("the page's address", page).await;
    let lines = std::fs::read_to_string(file).unwrap();
    let env = lines.lines().map(|line| {
        let (name, value) = line.split_once('=').unwrap();
        (name.to_owned(), value.trim_matches('\'').to_owned())
    });
    (sandbox, page, env.collect())
}

#[tokio::test]
async fn a_mail_is_enqueued_delivered_and_read_at_both_widths() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    desk.enqueue("Digest by mail").await;
    let id = desk.newest_is("delivered").await;
    browser.press(&id).await;
    browser.until("document.querySelector('#message iframe')").await;
    assert_eq!(browser.text("#detail-title").await, id);
    let width = "document.querySelector('#message iframe').getBoundingClientRect().width";
    browser.press("Phone").await;
    let phone = browser.value(width).await.as_f64().unwrap();
    assert!((370.0..=378.0).contains(&phone), "{phone}");
    browser.press("Desktop").await;
    let desktop = browser.value(width).await.as_f64().unwrap();
    assert!((638.0..=802.0).contains(&desktop), "{desktop}");

    let title = "The unsubscribe link of the mail";
    browser.client.enter_frame(0).await.unwrap();
    let link = browser.client.find(Locator::XPath("//a[contains(., 'nsubscribe')]")).await;
    assert!(link.expect(title).is_displayed().await.unwrap(), "{title}");
    browser.client.enter_parent_frame().await.unwrap();

    browser.press("Text").await;
    assert!(browser.text("#message pre").await.contains("nsubscribe"));
    browser.press("Headers").await;
    let headers = browser.text("#message dl").await;
    for name in ["From", "To", "Subject", "List-Unsubscribe", "List-Unsubscribe-Post", "Idempotency-Key"] {
        assert!(headers.contains(name), "{name} is not in {headers}");
    }
    browser.press("Source").await;
    assert!(browser.text("#message pre").await.starts_with("<!doctype html>"));
    assert!(browser.text("#message .size").await.contains("of the 102 kB"));
    assert!(browser.text("#lines").await.contains("acked delivered"));
    desk.end().await;
}

#[tokio::test]
async fn a_push_that_is_answered_with_410_is_seen_bounced_and_the_next_one_delivered() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    browser.choose("#failure", "Push service: 410 subscription gone").await;
    browser.press("Make it fail").await;
    browser.until("document.querySelector('#armed').textContent.includes('410')").await;
    desk.enqueue("Nudge by push").await;
    let id = desk.newest_is("bounced").await;
    browser.until("document.querySelector('#armed').hidden").await;
    let detail = browser.text("#rows tr .detail").await;
    assert!(detail.contains("410"), "{detail}");
    let told = browser.value("document.querySelector('#told').textContent").await;
    assert_eq!(told, json!(format!("{id} is bounced")), "for who does not see the table");

    desk.enqueue("Nudge by push").await;
    let id = desk.newest_is("delivered").await;
    browser.press(&id).await;
    browser.until("document.querySelector('#message .card')").await;
    assert!(browser.text("#message .card").await.contains("Worth returning to"));
    assert!(browser.text("#message .click").await.contains("https://listen.example.com/player/"));
    desk.end().await;
}

#[tokio::test]
async fn a_mail_that_comes_back_later_is_seen_bounced_with_what_resend_told() {
    let desk = Desk::start().await;
    desk.enqueue("Mail that bounces").await;
    let id = desk.newest_is("bounced").await;
    desk.browser.press(&id).await;
    desk.browser.until("document.querySelector('#lines').textContent.includes('acked bounced')").await;
    let lines = desk.browser.text("#lines").await;
    assert!(lines.contains("Resend: sent") && lines.contains("Resend: bounced"), "{lines}");
    desk.end().await;
}

#[tokio::test]
async fn a_pasted_envelope_that_is_wrong_has_its_field_named_and_can_be_mended() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    browser.press("Paste an envelope").await;
    browser.keys("{\"id\": \"e-1\",").await;
    browser.press("Enqueue").await;
    browser.until("document.querySelector('#wrong').textContent.includes('line 1')").await;
    browser.choose("#draft", "Digest by mail").await;
    browser.until("document.querySelector('#json').value.includes('your-week-digest')").await;
    let edit = "document.querySelector('#json').value = document.querySelector('#json').value";
    browser.value(&format!("{edit}.replace('\"created_at\"', '\"created\"')")).await;
    browser.press("Enqueue").await;
    browser.until("document.querySelector('#wrong').textContent.startsWith('created_at: ')").await;
    assert_eq!(
        browser.value("document.querySelector('#json').getAttribute('aria-invalid')").await,
        json!("true")
    );
    assert!(browser.value("document.querySelectorAll('#rows tr').length === 0").await == json!(true));
    browser.value(&format!("{edit}.replace('\"created\"', '\"created_at\"')")).await;
    browser.press("Enqueue").await;
    browser.until("!document.querySelector('#paste').open").await;
    desk.newest_is("delivered").await;
    desk.end().await;
}

#[tokio::test]
async fn everything_can_be_done_with_the_keyboard() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    let focus = "document.activeElement.textContent";
    let ring = "getComputedStyle(document.activeElement).outlineStyle === 'solid'";
    tab_to(browser, "Digest by mail").await;
    assert_eq!(browser.value(ring).await, json!(true), "the focus is seen");
    browser.key(Key::Enter).await;
    let first = desk.newest_is("delivered").await;
    browser.key(Key::Enter).await;
    browser.until("document.querySelectorAll('#rows tr').length === 2").await;
    let second = desk.newest_is("delivered").await;
    tab_to(browser, &second).await;
    browser.key(Key::Down).await;
    assert_eq!(browser.value(focus).await, json!(first));
    browser.key(Key::Enter).await;
    browser.until("document.activeElement.id === 'detail'").await;
    tab_to(browser, "Desktop").await;
    browser.key(Key::Right).await;
    assert_eq!(browser.value(focus).await, json!("Text"));
    browser.until("!document.querySelector('#message pre').hidden").await;
    browser.key(Key::Escape).await;
    browser.until("document.querySelector('#detail').hidden").await;
    assert_eq!(browser.value(focus).await, json!(first), "back where one came from");
    tab_back_to(browser, "Paste an envelope").await;
    browser.key(Key::Enter).await;
    browser.until("document.activeElement.id === 'json'").await;
    browser.key(Key::Escape).await;
    browser.until("!document.querySelector('#paste').open").await;
    desk.end().await;
}

async fn tab_to(browser: &Browser, label: &str) {
    walk(browser, label, char::from(Key::Tab).to_string()).await;
}

async fn tab_back_to(browser: &Browser, label: &str) {
    let back = format!("{}{}", char::from(Key::Shift), char::from(Key::Tab));
    walk(browser, label, back).await;
}

async fn walk(browser: &Browser, label: &str, step: String) {
    let mut passed = Vec::new();
    for _ in 0..40 {
        let here = browser.value("document.activeElement.textContent.slice(0, 40)").await;
        if here == json!(label) {
            return;
        }
        passed.push(here);
        browser.keys(&step).await;
    }
    panic!("{label} is not reached; what is: {passed:?}");
}

#[tokio::test]
async fn a_request_that_hangs_is_let_go_and_what_is_armed_is_taken_back() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    browser.choose("#failure", "Resend: hang until released").await;
    browser.press("Make it fail").await;
    desk.enqueue("Nudge by mail").await;
    browser.until("document.querySelector('#armed').textContent.includes('1 waiting for an answer')").await;
    browser.press("Release").await;
    desk.newest_is("delivered").await;
    browser.choose("#failure", "Resend: 500 internal error").await;
    browser.click("#always").await;
    browser.press("Make it fail").await;
    browser.until("document.querySelector('#armed').textContent.includes('every time')").await;
    browser.press("Take back: Resend").await;
    browser.until("document.querySelector('#armed').hidden").await;
    desk.end().await;
}

#[tokio::test]
async fn a_hostile_mail_runs_nothing_and_asks_for_nothing() {
    let desk = Desk::without_worker("0").await;
    let browser = &desk.browser;
    let (elsewhere, asked) = listen().await;
    let html = format!(
        "<h1>Hello</h1><script>parent.document.title = 'taken'; fetch('{elsewhere}/a')</script>\
         <img src='{elsewhere}/b' onerror=\"parent.document.title = 'taken'\"><link rel=stylesheet href='{elsewhere}/c'>\
         <iframe src='{elsewhere}/d'></iframe><meta http-equiv=refresh content='0; url={elsewhere}/e'>\
         <form action='{elsewhere}/f'><button>Go</button></form>"
    );
    mail(&desk, "<b>hostile</b>", &html).await;
    browser.until("document.querySelector('#rows tr')").await;
    browser.click("#rows tr button").await;
    browser.until("document.querySelector('#message iframe')").await;
    let subject = browser.value("document.querySelector('#message .mail b').textContent").await;
    assert_eq!(subject, json!("<b>hostile</b>"), "as text");
    browser.client.enter_frame(0).await.unwrap();
    browser.until("document.querySelector('h1').textContent === 'Hello'").await;
    browser.client.enter_parent_frame().await.unwrap();
    browser.press("Close").await;
    desk.enqueue("Digest by mail").await;
    browser.click("#rows tr button").await;
    browser.until("document.querySelector('#detail-facts').textContent.includes('your-week-digest')").await;
    assert_eq!(browser.value("document.title").await, json!("Sandbox"));
    assert_eq!(*asked.borrow(), Vec::<String>::new());
    desk.browser.close().await;
}

/// A server elsewhere, and the first line of each request to it. A browser may connect ahead of a request that it
/// then refuses: that tells nobody anything.
async fn listen() -> (String, watch::Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, seen) = watch::channel(Vec::new());
    tokio::spawn(async move {
        while let Ok((peer, _)) = listener.accept().await {
            let asked = asked.clone();
            tokio::spawn(async move {
                let mut line = String::new();
                if BufReader::new(peer).read_line(&mut line).await.is_ok_and(|length| length > 0) {
                    asked.send_modify(|asked| asked.push(line));
                }
            });
        }
    });
    (address, seen)
}

/// Sends a mail to the stand-in for Resend, as a worker would.
async fn mail(desk: &Desk, subject: &str, html: &str) {
    let of = |name: &str| desk.env.iter().find(|(n, _)| n == name).unwrap().1.clone();
    let mail = json!({"from": of("MAIL_FROM"), "to": ["a@example.com"], "subject": subject, "html": html, "text": "-"});
    let client = client_builder().tls_certs_only([]).build().unwrap();
    let request = client.post(format!("{}/emails", of("RESEND_BASE_URL"))).bearer_auth(of("RESEND_API_KEY"));
    let request = request.header("content-type", "application/json").header("idempotency-key", "hostile");
    assert_eq!(request.body(Value::to_string(&mail)).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_sandbox_that_ends_is_missed_and_one_that_comes_back_is_found() {
    let desk = Desk::without_worker("0").await;
    let browser = &desk.browser;
    let port = desk.page.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    desk.sandbox.kill().await;
    browser.until("document.querySelector('#link').textContent.includes('has ended')").await;
    let (_again, _, _) = sandbox(&port).await;
    browser.until("document.querySelector('#link').textContent === 'live'").await;
    desk.browser.close().await;
}
