//! The daemon's own page, and the preview of a template.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::browser::Browser;
use crate::desk::sandbox;
use crate::process::Process;

#[tokio::test]
async fn the_daemons_page_follows_what_it_does() {
    let (_sandbox, page, env) = sandbox("0").await;
    let quick = [
        ("DELIVERY_POLL_INTERVAL", "200ms"),
        ("DELIVERY_ADMIN_ADDR", "127.0.0.1:0"),
        ("DELIVERY_LOG_FORMAT", "json"),
    ];
    let quick = quick.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env: Vec<_> = env.into_iter().chain(quick).collect();
    let worker = Process::worker(&["run"], &env);
    let admin = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(line["admin"].as_str()?.to_owned())
    };
    let admin = worker.line("the admin address", admin).await;
    let browser = Browser::start().await;
    browser.open(&page).await;
    browser.until("document.querySelectorAll('#examples button').length === 7").await;
    browser.press("Digest by mail").await;
    browser.until("document.querySelector('#rows tr .pill').textContent === 'delivered'").await;
    browser.open(&format!("http://{admin}/")).await;
    browser.until("document.querySelector('main').textContent.includes('delivered')").await;
    for (width, dark) in [(1280, false), (1280, true), (375, false), (375, true)] {
        browser.look_like(width, dark).await;
        browser.picture(&format!("status-{width}-{}", if dark { "dark" } else { "light" })).await;
        let wide = browser.value("document.documentElement.scrollWidth").await;
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} px on {width} px");
    }
    browser.until("document.querySelector('#live').textContent === 'live'").await;
    let up = browser.text("#facts").await;
    browser.until(&format!("document.querySelector('#facts').textContent !== '{up}'")).await;
    assert_eq!(browser.wrongs().await, Vec::<String>::new());
    assert!(!browser.text("body").await.contains("example.com"), "no address is told");
    worker.kill().await;
    browser.until("document.querySelector('#live').textContent.includes('does not answer')").await;
    assert!(browser.text("main").await.contains("delivered"), "what it last said stays");
    browser.close().await;
}

#[tokio::test]
async fn the_preview_follows_each_save_and_names_file_and_line_of_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/resurface-nudge.v1");
    let mine = folder.path().join("resurface-nudge.v1");
    fs::create_dir(&mine).unwrap();
    let envelope = built_in.join("example.json");
    let arguments =
        ["render", envelope.to_str().unwrap(), "--watch", folder.path().to_str().unwrap(), "--port", "0"];
    let preview =
        Process::worker(&arguments, &[("APP_ORIGIN".to_owned(), "https://app.example.com".to_owned())]);
    let address =
        preview.line("the page's address", |line| Some(line.split_once(" shows ")?.0.to_owned())).await;
    let browser = Browser::start().await;
    browser.open(&address).await;
    browser.until("document.querySelector('#message iframe')").await;
    fs::write(mine.join("email.subject.hbs"), "A subject of mine").unwrap();
    browser.until("document.querySelector('#message .mail b').textContent === 'A subject of mine'").await;
    fs::write(mine.join("email.subject.hbs"), "A subject\nof {{nobody").unwrap();
    let problem = browser
        .until(
            "!document.querySelector('#problems').hidden && document.querySelector('#problems').textContent",
        )
        .await;
    assert!(problem.as_str().unwrap().contains("email.subject.hbs"), "{problem}");
    assert_eq!(
        browser.value("document.querySelector('#message .mail b').textContent").await,
        json!("A subject of mine")
    );
    browser.picture("preview-error").await;
    fs::write(mine.join("email.subject.hbs"), "Mended").unwrap();
    browser.until("document.querySelector('#problems').hidden").await;
    assert_eq!(browser.wrongs().await, Vec::<String>::new());
    browser.close().await;
}
