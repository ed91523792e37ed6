//! SIGHUP: templates are taken in anew, all or nothing, while the worker goes on.

use std::fs;
use std::path::Path;

use delivery_worker::sandbox::examples::digest;
use rustix::process::Signal;

use crate::harness::{Stage, says, text};

fn write_subject(folder: &Path, subject: &str) {
    let folder = folder.join("your-week-digest.v1");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("email.subject.hbs"), subject).unwrap();
}

async fn subject_of(stage: &Stage, id: &str) -> String {
    stage.seam.enqueue(digest(id, &format!("{id}@example.com")));
    stage.acked([id]).await;
    let mails = stage.resend.inbox();
    mails.iter().find(|mail| mail.idempotency_key.as_deref() == Some(id)).unwrap().subject.clone()
}

#[tokio::test]
async fn changed_templates_are_taken_in_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    write_subject(folder.path(), "The first form");
    let stage = Stage::of_email().await.with("DELIVERY_TEMPLATES_DIR", folder.path().to_str().unwrap());
    let program = stage.run().await;
    assert_eq!(subject_of(&stage, "mail-1").await, "The first form");

    write_subject(folder.path(), "The second form");
    program.signal(Signal::HUP);
    program.logged("the reload", says("templates loaded again")).await;
    assert_eq!(subject_of(&stage, "mail-2").await, "The second form");

    write_subject(folder.path(), "A form\n{{#if payload}}that never ends");
    program.signal(Signal::HUP);
    let line = program.logged("the refusal", says("templates not loaded again")).await;
    let message = text(&line, "message");
    assert!(message.contains("your-week-digest.v1/email.subject.hbs:"), "file and line: {message}");
    assert_eq!(text(&line, "level"), "ERROR");
    assert_eq!(subject_of(&stage, "mail-3").await, "The second form");

    write_subject(folder.path(), "The third form");
    program.signal(Signal::HUP);
    program.logged_times(2, "the second reload", says("templates loaded again")).await;
    assert_eq!(subject_of(&stage, "mail-4").await, "The third form");
}
