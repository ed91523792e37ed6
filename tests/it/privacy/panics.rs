//! A panic may quote whatever it stumbled over: its message is told only where it cannot.
//!
//! The hook is the whole process's, so the panics happen in a process of their own: this test, started
//! again.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delivery_worker::channel::{Attempt, Channel, Delivery, Gating, Rate, Route};
use delivery_worker::channel::{Destination, GateId};
use delivery_worker::clock::SystemClock;
use delivery_worker::engine::{Engine, LaneSettings, Mode, Parts, Settings};
use delivery_worker::envelope::{ChannelName, Envelope};
use delivery_worker::outbox::{self, HttpSeam};
use delivery_worker::outcome::Refusal;
use delivery_worker::render::{Library, Links};
use delivery_worker::sandbox::{Options, Sandbox};
use delivery_worker::telemetry::events::Events;
use delivery_worker::telemetry::logs::{self, Filter, Format};
use delivery_worker::telemetry::metrics::Metrics;
use delivery_worker::telemetry::screen::Screen;
use secrecy::SecretString;

use super::{MARK, marked};

/// In the environment of the process that panics: the format of its log.
const IN_FORMAT: &str = "PANIC_IN_FORMAT";

/// A channel that stumbles over a recipient as it looks at it, or over the payload as it delivers.
struct Stumbling;

#[async_trait]
impl Channel for Stumbling {
    fn name(&self) -> ChannelName {
        ChannelName::new("email")
    }

    fn gating(&self) -> Gating {
        Gating::OneProvider(Rate::Unlimited)
    }

    fn redelivery_window(&self) -> Option<Duration> {
        None
    }

    fn route(&self, envelope: &Envelope) -> Result<Route, Refusal> {
        let recipient: serde_json::Value = envelope.recipient.decode().unwrap();
        assert!(envelope.id.as_str() != "route", "cannot go to {recipient}");
        Ok(Route { gate: GateId::new("resend", "resend"), destination: Destination::new("somewhere") })
    }

    async fn deliver(&self, delivery: &Delivery) -> Attempt {
        panic!("cannot render {:?}", delivery.envelope.payload.read());
    }
}

async fn stumble() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    sandbox.seam.enqueue(marked("route"));
    sandbox.seam.enqueue(marked("deliver"));
    let base_url: url::Url = sandbox.seam.server().url().parse().unwrap();
    let seam = HttpSeam::new(outbox::Settings {
        base_url: base_url.clone(),
        token: SecretString::from("sandbox-token"),
        token_header: "x-internal-token".parse().unwrap(),
    });
    let settings = Settings {
        page_limit: 10,
        poll_interval: Duration::from_millis(100),
        max_attempts: 2,
        retry_base: Duration::from_millis(10),
        retry_max: Duration::from_millis(10),
        shutdown_grace: Duration::from_secs(1),
    };
    let engine = Engine::new(Parts {
        seam: Arc::new(seam.unwrap()),
        channels: vec![(Arc::new(Stumbling), LaneSettings { workers: 1, seed: 1 })],
        known: [ChannelName::new("email")].into(),
        library: Arc::new(Library::load(None, Links::new(&base_url, "/unsubscribe").unwrap()).unwrap()),
        clock: Arc::new(SystemClock),
        events: Events::new(Metrics::new([ChannelName::new("email")])),
        settings,
    });
    let report = engine.run(Mode::Drain, std::future::pending(), std::future::pending()).await;
    assert_eq!(report.exit_code(), 0);
    for ack in sandbox.journal.log().acks() {
        eprintln!("{} was acked {}: {:?}", ack.id, ack.posted, ack.detail);
    }
}

/// Panics as a command would before its log is up, then in an engine at work.
fn panic_in(format: &str) {
    logs::guard_panics();
    let early = std::thread::spawn(|| panic!("cannot read {}", String::from(MARK))).join();
    assert!(early.is_err());
    let format = Format::parse(format).unwrap();
    let settings = logs::Settings { format, filter: Filter::parse("trace").ok().unwrap() };
    logs::start(&settings, &Screen::plain(), None).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(stumble());
}

/// Case 26.
#[test]
fn the_message_of_a_panic_that_quotes_data_is_never_told() {
    if let Ok(format) = std::env::var(IN_FORMAT) {
        return panic_in(&format);
    }
    let name = "privacy::panics::the_message_of_a_panic_that_quotes_data_is_never_told";
    for format in ["json", "text"] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture"]).env(IN_FORMAT, format).env("RUST_BACKTRACE", "full");
        let ended = child.output().unwrap();
        let told = [ended.stdout, ended.stderr].map(|out| String::from_utf8(out).unwrap()).join("\n");
        assert!(ended.status.success(), "{told}");
        for line in
            ["panic at ", "panic: (not shown", "a delivery panicked", "route was acked", "deliver was acked"]
        {
            assert!(told.contains(line), "{format}: {line} is not in\n{told}");
        }
        let found = told.lines().find(|line| line.to_lowercase().contains(MARK));
        assert_eq!(found, None, "{format}: {MARK} is told");
    }
}
