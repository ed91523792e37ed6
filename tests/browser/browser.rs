//! Chromium, driven. Every wait is one for a condition in the page, which the page itself looks at frame by frame.

use std::ffi::OsStr;
use std::path::PathBuf;

use fantoccini::key::Key;
use fantoccini::wd::{TimeoutConfiguration, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::Url;

use crate::process::{LIMIT, Process};

/// A window of a headless Chromium that remembers every error of its pages.
pub(crate) struct Browser {
    pub(crate) client: Client,
    _driver: Process,
}

/// Before any script of a page: what goes wrong is written down. Chromium has no other word for a refused load.
const WATCH: &str = "window.wrongs = [];
    addEventListener('error', (event) => wrongs.push('error: ' + event.message), true);
    addEventListener('unhandledrejection', (event) => wrongs.push('rejected: ' + event.reason));
    addEventListener('securitypolicyviolation', (event) => wrongs.push('refused: ' + event.blockedURI));
    for (const level of ['error', 'warn']) {
      const told = console[level];
      console[level] = (...words) => { wrongs.push(level + ': ' + words.join(' ')); told(...words); };
    }";

impl Browser {
    pub(crate) async fn start() -> Browser {
        let driver = Process::start(OsStr::new("chromedriver"), &["--port=0"], &[]);
        let port: u16 = driver
            .line("chromedriver's port", |line| {
                line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
            })
            .await;
        let mut wishes = serde_json::Map::new();
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1360,900",
        ];
        wishes.insert("goog:chromeOptions".to_owned(), json!({"args": arguments}));
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(wishes)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap();
        let patience = TimeoutConfiguration::new(Some(LIMIT), None, None);
        client.update_timeouts(patience).await.unwrap();
        let browser = Browser { client, _driver: driver };
        browser.tell_devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH})).await;
        browser
    }

    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// A command of the Chrome DevTools Protocol.
    pub(crate) async fn tell_devtools(&self, command: &str, parameters: Value) {
        let command = DevTools(json!({"cmd": command, "params": parameters}).to_string());
        self.client.issue_cmd(command).await.unwrap();
    }

    /// Waits until the JavaScript expression holds, and returns its value.
    pub(crate) async fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0];
             (function look() {{
               let value = null;
               try {{ value = ({expression}); }} catch {{ /* not there yet */ }}
               if (value) done(value); else setTimeout(look, 20);
             }})();"
        );
        match self.client.execute_async(&script, vec![]).await {
            Ok(value) => value,
            Err(error) => panic!("never: {expression}\n({error})\n{}", self.text("body").await),
        }
    }

    /// The value of a JavaScript expression.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        self.client.execute(&format!("return ({expression});"), vec![]).await.unwrap()
    }

    /// What is shown inside the first element of this CSS selector.
    pub(crate) async fn text(&self, selector: &str) -> String {
        self.client.find(Locator::Css(selector)).await.unwrap().text().await.unwrap()
    }

    /// Clicks the element of this CSS selector.
    pub(crate) async fn click(&self, selector: &str) {
        self.client.find(Locator::Css(selector)).await.unwrap().click().await.unwrap();
    }

    /// Clicks the button that says `label`.
    pub(crate) async fn press(&self, label: &str) {
        let path = format!("//button[normalize-space()='{label}']");
        self.client.find(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
    }

    /// Types into whatever has the focus.
    pub(crate) async fn keys(&self, keys: &str) {
        self.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
    }

    pub(crate) async fn key(&self, key: Key) {
        self.keys(&char::from(key).to_string()).await;
    }

    /// Chooses the option that says `label`.
    pub(crate) async fn choose(&self, selector: &str, label: &str) {
        let select = self.client.find(Locator::Css(selector)).await.unwrap();
        select.select_by_label(label).await.unwrap();
    }

    /// As on a screen of this width, in dark or light.
    pub(crate) async fn look_like(&self, width: u32, dark: bool) {
        let screen = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.tell_devtools("Emulation.setDeviceMetricsOverride", screen).await;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tell_devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Leaves a picture of the window.
    pub(crate) async fn picture(&self, name: &str) {
        let path: PathBuf = [env!("CARGO_TARGET_TMPDIR"), &format!("{name}.png")].iter().collect();
        std::fs::write(path, self.client.screenshot().await.unwrap()).unwrap();
    }

    /// Everything that went wrong on the page, and every address of another origin that it asked for.
    pub(crate) async fn wrongs(&self) -> Vec<String> {
        let all = "[...wrongs, ...performance.getEntriesByType('resource').map((entry) => entry.name)
            .filter((name) => new URL(name).origin !== location.origin)]";
        serde_json::from_value(self.value(all).await).unwrap()
    }

    pub(crate) async fn close(self) {
        self.client.close().await.unwrap();
    }
}

#[derive(Debug)]
struct DevTools(String);

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.0.clone()))
    }
}
