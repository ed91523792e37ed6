//! Looks at the engine's tables whenever something happens, and counts how leases and gates move.
//!
//! For the figures alone: what is right is judged by the journals.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::faults::{Counts, counted};
use crate::channel::GateId;
use crate::clock::Now;
use crate::engine::Engine;
use crate::engine::gate::{Admission, Gate};
use crate::engine::leases::{Key, State};
use crate::outcome::{Cause, Streak};

counted! {
    /// Every way in which a lease or a gate moves.
    Step {
        Leased, BecameDue, ReadyToSending, ReadyToWaiting, ReadyToAcking, WaitingToReady, WaitingToSending,
        SendingToWaiting, SendingToAcking, SendingToAccepted, AcceptedToAcking, Settled, WithdrawnWhileReady, WithdrawnWhileWaiting,
        WithdrawnWhileSending,
        ClosedByAccount, ClosedByQuota, ClosedBySettings, ClosedByOutage, ClosedByCredentials,
        ClosedByBlocks, Held, Spaced, ProbeBegan, ProbeFailed, Reopened, Ramping, Ramped,
        AcksBlocked, AcksThrough,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    NotDue,
    Ready,
    Sending,
    Waiting,
    Accepted,
    Acking,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    closed: Option<Cause>,
    probing: bool,
    held: bool,
    spaced: bool,
    ramping: bool,
}

impl Seen {
    fn of(gate: &Gate, now: Now) -> Seen {
        let held = gate.held_until().is_some_and(|until| until > now.mono);
        let admission = gate.admits(now);
        Seen {
            closed: gate.closed().map(|(cause, _)| cause),
            probing: admission == Admission::Probe(None),
            held,
            spaced: matches!(admission, Admission::At(_)) && !held,
            ramping: gate.is_ramping(),
        }
    }
}

/// What was last seen of one process.
#[derive(Default)]
struct View {
    leases: HashMap<(usize, Key), Place>,
    gates: HashMap<(usize, GateId), Seen>,
    blocked: bool,
}

/// Counts the steps of one process until it is dropped.
pub(super) async fn watch(engine: Arc<Engine>, changed: Arc<Notify>, steps: Arc<Mutex<Counts>>) {
    let mut view = View::default();
    loop {
        changed.notified().await;
        let mut steps = steps.lock().unwrap();
        view.look(&engine, &mut |step: Step| steps.add(step as usize));
    }
}

impl View {
    fn look(&mut self, engine: &Engine, step: &mut impl FnMut(Step)) {
        let mut leases = HashMap::new();
        for (lane, desk) in engine.lanes.iter().enumerate() {
            let now = desk.now();
            let desk = desk.desk();
            for (key, lease) in desk.leases.iter() {
                let place = match lease.state() {
                    State::Ready if lease.is_due() => Place::Ready,
                    State::Ready => Place::NotDue,
                    State::Sending { .. } => Place::Sending,
                    State::Waiting { .. } => Place::Waiting,
                    State::Accepted => Place::Accepted,
                    State::Decided => Place::Acking,
                };
                leases.insert((lane, key), place);
            }
            for (id, gate) in desk.gates.iter() {
                let seen = Seen::of(gate, now);
                let before = self.gates.insert((lane, id.clone()), seen).unwrap_or_default();
                gate_steps(before, seen, step);
            }
        }
        for (key, place) in &leases {
            lease_step(self.leases.remove(key), Some(*place), step);
        }
        self.leases.drain().for_each(|(_, place)| lease_step(Some(place), None, step));
        self.leases = leases;
        let blocked = engine.seam_gate.lock().unwrap().is_blocked();
        match (std::mem::replace(&mut self.blocked, blocked), blocked) {
            (false, true) => step(Step::AcksBlocked),
            (true, false) => step(Step::AcksThrough),
            _ => {}
        }
    }
}

fn lease_step(before: Option<Place>, after: Option<Place>, step: &mut impl FnMut(Step)) {
    let moved = match (before, after) {
        (None, Some(_)) => Step::Leased,
        (Some(Place::NotDue), Some(Place::Ready | Place::Sending)) => Step::BecameDue,
        (Some(Place::Ready), Some(Place::Sending)) => Step::ReadyToSending,
        (Some(Place::Ready), Some(Place::Waiting)) => Step::ReadyToWaiting,
        (Some(Place::Ready), Some(Place::Acking)) => Step::ReadyToAcking,
        (Some(Place::Waiting), Some(Place::Ready)) => Step::WaitingToReady,
        (Some(Place::Waiting), Some(Place::Sending)) => Step::WaitingToSending,
        (Some(Place::Sending), Some(Place::Waiting)) => Step::SendingToWaiting,
        (Some(Place::Sending), Some(Place::Acking)) => Step::SendingToAcking,
        (Some(Place::Sending), Some(Place::Accepted)) => Step::SendingToAccepted,
        (Some(Place::Accepted), Some(Place::Acking)) => Step::AcceptedToAcking,
        (Some(Place::Acking), None) => Step::Settled,
        (Some(Place::Ready), None) => Step::WithdrawnWhileReady,
        (Some(Place::Waiting), None) => Step::WithdrawnWhileWaiting,
        (Some(Place::Sending), None) => Step::WithdrawnWhileSending,
        _ => return,
    };
    step(moved);
}

fn gate_steps(before: Seen, after: Seen, step: &mut impl FnMut(Step)) {
    match (before.closed, after.closed) {
        (None, Some(cause)) => step(closed_by(cause)),
        (Some(_), None) => step(Step::Reopened),
        (Some(_), Some(_)) if before.probing && !after.probing => step(Step::ProbeFailed),
        _ => {}
    }
    for (was, is, what) in [
        (before.probing, after.probing, Step::ProbeBegan),
        (before.held, after.held, Step::Held),
        (before.spaced, after.spaced, Step::Spaced),
        (before.ramping, after.ramping, Step::Ramping),
        (after.ramping || after.closed.is_some(), before.ramping, Step::Ramped),
    ] {
        if is && !was {
            step(what);
        }
    }
}

fn closed_by(cause: Cause) -> Step {
    match (cause, cause.streak()) {
        (Cause::QuotaDaily | Cause::QuotaMonthly, _) => Step::ClosedByQuota,
        (Cause::SenderSettings, _) => Step::ClosedBySettings,
        (_, Some(Streak::Outage)) => Step::ClosedByOutage,
        (_, Some(Streak::Credential)) => Step::ClosedByCredentials,
        (_, Some(Streak::Blocked)) => Step::ClosedByBlocks,
        _ => Step::ClosedByAccount,
    }
}
