//! How the pages look: at two widths, in both themes.

use serde_json::{Value, json};

use crate::desk::Desk;

#[tokio::test]
async fn it_fits_a_phone_and_follows_the_theme() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    desk.enqueue("Nudge by push").await;
    desk.newest_is("delivered").await;
    desk.enqueue("Digest by mail").await;
    let id = desk.newest_is("delivered").await;
    let mut grounds = Vec::new();
    for (width, dark) in [(1360, false), (1360, true), (375, false), (375, true)] {
        browser.look_like(width, dark).await;
        let name = |what: &str| format!("sandbox-{what}-{width}-{}", if dark { "dark" } else { "light" });
        browser.picture(&name("outbox")).await;
        fits(&desk, width).await;
        browser.press(&id).await;
        browser
            .until("document.querySelector('#message iframe') && document.activeElement.id === 'detail'")
            .await;
        browser.picture(&name("mail")).await;
        fits(&desk, width).await;
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor").await);
        browser.press("Close").await;
        browser.press("Paste an envelope").await;
        browser.choose("#draft", "Digest by mail").await;
        browser.until("document.querySelector('#json').value.length > 0").await;
        browser.picture(&name("paste")).await;
        fits(&desk, width).await;
        browser.press("Cancel").await;
    }
    assert_eq!(grounds[0], grounds[2]);
    assert_ne!(grounds[0], grounds[1], "dark is another ground");
    assert_eq!(browser.wrongs().await, Vec::<String>::new());
    desk.browser.close().await;
}

/// Nothing is to be reached by scrolling sideways.
async fn fits(desk: &Desk, width: u32) {
    let wide = desk.browser.value("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} px on {width} px");
}

#[tokio::test]
async fn a_mail_can_be_seen_in_either_theme_whatever_the_page_has() {
    let desk = Desk::start().await;
    let browser = &desk.browser;
    browser.look_like(1360, false).await;
    desk.enqueue("Digest by mail").await;
    let id = desk.newest_is("delivered").await;
    browser.press(&id).await;
    browser.until("document.querySelector('#message iframe')").await;
    let dark = "matchMedia('(prefers-color-scheme: dark)').matches";
    assert_eq!(in_frame(&desk, dark).await, json!(false));
    browser.press("Show it in dark").await;
    assert_eq!(in_frame(&desk, dark).await, json!(true));
    browser.picture("sandbox-mail-in-dark").await;
    assert_eq!(browser.value(dark).await, json!(false), "the page stays as it is");
    desk.browser.close().await;
}

async fn in_frame(desk: &Desk, expression: &str) -> Value {
    desk.browser.client.enter_frame(0).await.unwrap();
    let value = desk.browser.value(expression).await;
    desk.browser.client.enter_parent_frame().await.unwrap();
    value
}
