//! The stand-ins with a worker's environment: what most tests begin with.

use std::collections::BTreeMap;
use std::ops::Deref;

use delivery_worker::sandbox::journal::{AckAnswer, Event, Log, ReceivedAck};
use delivery_worker::sandbox::{Options, Sandbox};

use super::{Program, within};

/// The three stand-ins, and how a worker is told to find them.
pub(crate) struct Stage {
    sandbox: Sandbox,
    env: BTreeMap<String, String>,
}

impl Deref for Stage {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Stage {
    /// Both channels, polled and retried as fast as can be set.
    pub(crate) async fn new() -> Stage {
        Stage::with_options(Options::default()).await
    }

    /// The same with stand-ins that are started otherwise.
    pub(crate) async fn with_options(options: Options) -> Stage {
        let sandbox = Sandbox::start(options).await.unwrap();
        let fast = [
            ("DELIVERY_ADMIN_ADDR", "127.0.0.1:0"),
            ("DELIVERY_POLL_INTERVAL", "100ms"),
            ("DELIVERY_RETRY_BASE", "100ms"),
            ("DELIVERY_RETRY_MAX", "1s"),
            ("RESEND_MAX_RPS", "0"),
            // What becomes of a mail later has tests of its own.
            ("DELIVERY_EMAIL_ACK", "accepted"),
            ("RUST_LOG", "debug"),
        ];
        let fast = fast.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = sandbox.worker_env().into_iter().map(|(name, value)| (name.to_owned(), value));
        Stage { env: found.chain(fast).collect(), sandbox }
    }

    /// The email channel alone.
    pub(crate) async fn of_email() -> Stage {
        Stage::new().await.with("DELIVERY_CHANNELS", "email")
    }

    /// The push channel alone.
    pub(crate) async fn of_push() -> Stage {
        Stage::new().await.with("DELIVERY_CHANNELS", "push")
    }

    /// With a variable set.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Stage {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// The worker's environment.
    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The daemon, delivering.
    pub(crate) async fn run(&self) -> Program {
        Program::start(&["run"], &self.env).delivering().await
    }

    /// A drain, begun.
    pub(crate) fn drain(&self) -> Program {
        Program::start(&["drain"], &self.env)
    }

    /// Waits until `holds` is true of the journal.
    pub(crate) async fn until(&self, what: &str, holds: impl FnMut(&Log) -> bool) -> Log {
        let seen = || format!("{what}: did not come.\n{}", summary(&self.journal.log()));
        within(self.journal.wait_until(holds), seen).await
    }

    /// Waits until the seam has stored a status for each of `ids`; the statuses' posts in that order.
    pub(crate) async fn acked<const N: usize>(&self, ids: [&str; N]) -> [ReceivedAck; N] {
        let log = self
            .until(&format!("acks of {ids:?}"), |log| ids.iter().all(|id| stored(log, id).is_some()))
            .await;
        ids.map(|id| stored(&log, id).unwrap())
    }

    /// Waits for so many pages more of `channel`: time enough for whatever should not happen.
    pub(crate) async fn more_pages(&self, more: usize, channel: &str) -> Log {
        let before = pages(&self.journal.log(), channel);
        self.until("more pages", |log| pages(log, channel) >= before + more).await
    }
}

fn stored(log: &Log, id: &str) -> Option<ReceivedAck> {
    log.acks().find(|ack| ack.id == id && ack.answer == AckAnswer::Stored).cloned()
}

/// How many pages of `channel` were served.
fn pages(log: &Log, channel: &str) -> usize {
    let of_channel = |event: &Event| matches!(event, Event::Listed { channel: c, .. } if c == channel);
    log.entries().iter().filter(|entry| of_channel(&entry.event)).count()
}

/// The envelopes whose mails were accepted, in their order.
pub(crate) fn mailed(log: &Log) -> Vec<String> {
    log.mails().map(|mail| mail.idempotency_key.clone().unwrap_or_default()).collect()
}

/// One line each, without the mails' bodies and the pages, which are many.
fn summary(log: &Log) -> String {
    let line = |event: &Event| match event {
        Event::Listed { .. } => None,
        Event::Mailed(mail) => Some(format!("mailed {:?} to {}", mail.idempotency_key, mail.to)),
        Event::Pushed(push) => Some(format!("pushed {:?} to {}", push.tag, push.token)),
        Event::Acked(_) | Event::MailRepeated { .. } | Event::Refused(_) | Event::Faulted { .. } => {
            Some(format!("{event:?}"))
        }
    };
    let lines: Vec<String> = log.entries().iter().filter_map(|entry| line(&entry.event)).collect();
    format!("{} pages were served, and:\n  {}", log.pages(), lines.join("\n  "))
}
