//! How each envelope of the demo ended, read from what the stand-ins saw.
//!
//! Owns the verdict. It takes the worker's word for two things alone, which nobody else can know: what it
//! still holds, and how many envelopes it reports as unreadable.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::cast::{Expected, Role};
use crate::outcome::AckStatus;
use crate::sandbox::Sandbox;
use crate::sandbox::journal::{AckAnswer, Event, Log, ReceivedAck, Refused};
use crate::telemetry::status::{Status, Unready};

/// Everything that a verdict rests on, at one moment.
pub(super) struct Evidence {
    /// What the stand-ins saw.
    pub(super) log: Log,
    listed: HashSet<String>,
    consent_off: BTreeSet<(String, String)>,
    held: usize,
    unreadable: usize,
}

/// How one envelope ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    /// In which way.
    pub(super) how: How,
    /// Requests to its provider.
    pub(super) attempts: usize,
    /// The ack's detail.
    pub(super) detail: Option<String>,
    messages: usize,
    acks: usize,
    consent_ended: bool,
    early: bool,
}

/// The ways to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Not yet.
    Pending,
    /// With this status.
    Acked(AckStatus),
    /// Not listed any more, and the worker has let go of it.
    Withdrawn,
    /// Still listed, and the worker reports that it cannot read it.
    LeftAlone,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            How::Pending => "pending",
            How::Acked(status) => status.as_str(),
            How::Withdrawn => "withdrawn",
            How::LeftAlone => "left alone",
        })
    }
}

impl Evidence {
    /// What there is now. `status` is the worker's.
    pub(super) fn gather(sandbox: &Sandbox, status: &Status) -> Evidence {
        let listed = ["email", "push"].into_iter().flat_map(|channel| sandbox.seam.pending(channel));
        let id = |element: Value| element.get("id").and_then(Value::as_str).map(str::to_owned);
        let unreadable = |reason: &Unready| match reason {
            Unready::UnreadableVersion { count } => Some(*count),
            _ => None,
        };
        Evidence {
            log: sandbox.journal.log(),
            listed: listed.filter_map(id).collect(),
            consent_off: sandbox.seam.unsubscribed(),
            held: status.lanes.iter().flat_map(|lane| lane.leases.values()).sum(),
            unreadable: status.unready.iter().filter_map(unreadable).sum(),
        }
    }

    /// How the envelope of `role` ended.
    pub(super) fn ending(&self, role: &Role) -> Ending {
        let envelope = role.envelope();
        let text = |name: &str| envelope.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let acks: Vec<&ReceivedAck> = self.log.acks().filter(|ack| ack.id == role.id).collect();
        let stored = acks.iter().find(|ack| ack.answer == AckAnswer::Stored);
        let sent = self.sent(role);
        let not_before: Option<DateTime<Utc>> = text("not_before").parse().ok();
        Ending {
            how: self.how(role, stored.map(|ack| ack.posted)),
            attempts: self.log.attempts(&role.target),
            detail: stored.and_then(|ack| ack.detail.clone()),
            messages: sent.len(),
            acks: acks.len(),
            consent_ended: self.consent_off.contains(&(text("user_id"), text("channel"))),
            early: not_before.is_some_and(|due| sent.iter().any(|at| *at < due)),
        }
    }

    fn how(&self, role: &Role, acked: Option<AckStatus>) -> How {
        match acked {
            Some(status) => How::Acked(status),
            None if self.held > 0 => How::Pending,
            None if !self.listed.contains(role.id) => How::Withdrawn,
            // Every envelope that is still listed is one of those that the worker reports.
            None if self.listed.len() == self.unreadable => How::LeftAlone,
            None => How::Pending,
        }
    }

    /// When its messages were accepted.
    fn sent(&self, role: &Role) -> Vec<DateTime<Utc>> {
        let is_its = |event: &Event| match event {
            Event::Mailed(mail) => mail.idempotency_key.as_deref() == Some(role.id),
            Event::Pushed(push) => push.token == role.target,
            _ => false,
        };
        self.log.entries().iter().filter(|entry| is_its(&entry.event)).map(|entry| entry.at.wall).collect()
    }

    /// What the stand-ins refused although nobody set them up to.
    pub(super) fn refusals<'a>(&'a self, cast: &'a [Role]) -> impl Iterator<Item = &'a Refused> {
        let is_meant = |refused: &Refused| {
            let of = cast.iter().find(|role| refused.target.as_ref() == Some(&role.target));
            of.is_some_and(|role| role.is_gone() && refused.status == 410)
        };
        self.log.refusals().filter(move |refused| !is_meant(refused))
    }
}

impl Expected {
    /// The way to end.
    pub(super) fn how(&self) -> How {
        match self {
            Expected::Acked { status, .. } | Expected::Later { status, .. } => How::Acked(*status),
            Expected::Withdrawn => How::Withdrawn,
            Expected::LeftAlone => How::LeftAlone,
        }
    }
}

impl Role {
    /// Whether its browser's subscription has ended, which the push service says with a 410.
    fn is_gone(&self) -> bool {
        matches!(self.expected, Expected::Acked { status: AckStatus::Bounced, .. })
    }

    fn ends_consent(&self) -> bool {
        let ends = [AckStatus::Bounced, AckStatus::Complaint, AckStatus::Suppressed];
        matches!(self.expected.how(), How::Acked(status) if ends.contains(&status))
    }

    /// What is not as it should be with an ending, or `None`.
    pub(super) fn objection(&self, ending: &Ending) -> Option<String> {
        let how = self.expected.how();
        let (attempts, detail) = match &self.expected {
            Expected::Acked { attempts, detail, .. } => (*attempts, *detail),
            Expected::Later { detail, .. } => (1, *detail),
            Expected::Withdrawn | Expected::LeftAlone => (0, ""),
        };
        let later = matches!(self.expected, Expected::Later { .. });
        let messages = usize::from(later || how == How::Acked(AckStatus::Delivered));
        let acks = usize::from(matches!(how, How::Acked(_)));
        let said = ending.detail.as_deref().unwrap_or_default();
        if ending.how != how {
            Some(format!("should be {how}, is {}", ending.how))
        } else if ending.attempts != attempts {
            Some(format!("attempts: {} instead of {attempts}", ending.attempts))
        } else if ending.messages != messages {
            Some(format!("messages: {} instead of {messages}", ending.messages))
        } else if ending.acks != acks {
            Some(format!("acks: {} instead of {acks}", ending.acks))
        } else if !said.contains(detail) {
            Some(format!("its ack should name {detail}, says: {said}"))
        } else if ending.early {
            Some("was sent before its not_before".to_owned())
        } else if ending.consent_ended != self.ends_consent() {
            Some("its reader's consent should not have changed".to_owned())
        } else {
            None
        }
    }
}
