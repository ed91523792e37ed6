//! What systemd is told through the worker's whole life, by a socket that stands in for it.

use std::collections::VecDeque;
use std::fs;
use std::time::Duration;

use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::digest;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::UnixDatagram;

use crate::harness::{Program, Stage, says, within};

/// As in the unit, but shorter; a ping comes each third of it.
const WATCHDOG: Duration = Duration::from_millis(600);

/// systemd's end of NOTIFY_SOCKET.
struct Manager {
    socket: UnixDatagram,
    unread: VecDeque<String>,
    folder: TempDir,
}

impl Manager {
    fn new() -> Manager {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        Manager { socket, unread: VecDeque::new(), folder }
    }

    /// What it sets for the services that it starts.
    fn of(&self, stage: Stage) -> Stage {
        let socket = self.folder.path().join("notify").to_str().unwrap().to_owned();
        stage.with("NOTIFY_SOCKET", socket).with("WATCHDOG_USEC", WATCHDOG.as_micros().to_string())
    }

    /// The next assignment that was not there before, as it came.
    async fn next(&mut self) -> String {
        loop {
            if let Some(line) = self.unread.pop_front() {
                return line;
            }
            let mut message = [0; 4096];
            let length = self.socket.recv(&mut message).await.unwrap();
            let message = std::str::from_utf8(&message[..length]).unwrap();
            self.unread.extend(message.lines().map(str::to_owned));
        }
    }

    /// The next one that begins so; what comes before it is passed over.
    async fn told(&mut self, begins: &str) -> String {
        let found = async {
            loop {
                let line = self.next().await;
                if line.starts_with(begins) {
                    return line;
                }
            }
        };
        within(found, || format!("not told: {begins}")).await
    }

    /// What it has been told and has not read.
    fn rest(&mut self) -> Vec<String> {
        let mut message = [0; 4096];
        while let Ok(length) = self.socket.try_recv(&mut message) {
            let message = std::str::from_utf8(&message[..length]).unwrap();
            self.unread.extend(message.lines().map(str::to_owned));
        }
        self.unread.drain(..).collect()
    }
}

#[tokio::test]
async fn the_whole_life_of_a_worker_is_told() {
    let mut manager = Manager::new();
    let stage = manager.of(Stage::of_email().await);
    stage.resend.faults().add(Fault::hang());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;

    assert_eq!(manager.next().await, "READY=1", "before anything else");
    manager.told("STATUS=delivering; email: 1 sending").await;
    manager.told("WATCHDOG=1").await;
    manager.told("WATCHDOG=1").await;

    program.signal(Signal::HUP);
    manager.told("RELOADING=1").await;
    let since = manager.told("MONOTONIC_USEC=").await;
    assert!(since.trim_start_matches("MONOTONIC_USEC=").parse::<u64>().unwrap() > 0, "{since}");
    manager.told("READY=1").await;

    program.signal(Signal::TERM);
    manager.told("STOPPING=1").await;
    manager.told("STATUS=stopping; email: 1 sending").await;
    manager.told("WATCHDOG=1").await;
    stage.resend.faults().release();
    assert_eq!(program.exit().await, Some(0));
}

#[tokio::test]
async fn trouble_elsewhere_is_told_and_does_not_stop_the_pings() {
    let mut manager = Manager::new();
    let stage = manager.of(Stage::of_email().await).with("OUTBOX_BASE_URL", "http://127.0.0.1:9");
    let program = Program::start(&["run"], stage.env());
    let status = manager.told("STATUS=kept from delivering; no page comes").await;
    assert!(!status.contains("127.0.0.1"), "{status}");
    manager.told("WATCHDOG=1").await;
    manager.told("WATCHDOG=1").await;
    drop(program);
}

#[tokio::test]
async fn a_wrong_configuration_is_never_ready() {
    let mut manager = Manager::new();
    let stage = manager.of(Stage::of_email().await).with("APP_ORIGIN", "ftp://app");
    assert_eq!(Program::start(&["run"], stage.env()).exit().await, Some(78));
    assert_eq!(manager.rest(), [""; 0]);
}

#[tokio::test]
async fn a_broken_template_is_never_ready_at_the_start_and_harms_nothing_later() {
    let mut manager = Manager::new();
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("your-week-digest.v1/email.subject.hbs");
    fs::create_dir_all(template.parent().unwrap()).unwrap();
    fs::write(&template, "{{#if").unwrap();
    let stage = manager.of(Stage::of_email().await);
    let stage = stage.with("DELIVERY_TEMPLATES_DIR", folder.path().to_str().unwrap());
    assert_eq!(Program::start(&["run"], stage.env()).exit().await, Some(78));
    assert_eq!(manager.rest(), [""; 0]);

    fs::write(&template, "A subject").unwrap();
    let program = stage.run().await;
    manager.told("READY=1").await;
    fs::write(&template, "{{#if").unwrap();
    program.signal(Signal::HUP);
    program.logged("the refusal", says("templates not loaded again")).await;
    manager.told("RELOADING=1").await;
    manager.told("READY=1").await;
}

#[tokio::test]
async fn without_a_manager_nothing_is_told_and_all_is_well() {
    let stage = Stage::of_email().await.with("NOTIFY_SOCKET", "/nonexistent/notify");
    let mut program = stage.run().await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
}
