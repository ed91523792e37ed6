//! What a page means for a lane: new leases, fresh ones, withdrawn ones, junk.
//!
//! Owns the reading of pages, element by element, so that a bad one costs itself alone. It must not
//! know who is sent when.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::acks::{Decision, Memory};
use super::desk::Desk;
use super::leases::{Coverage, Listing};
use super::window::{Request, Tally, Window};
use crate::channel::{Channel, Gating};
use crate::clock::Now;
use crate::envelope::{Envelope, EnvelopeId, FieldError, Reading};
use crate::outbox::{Ack, Element, Page, SeamError};
use crate::outcome::{AckStatus, Cause, Detail, Refusal};
use crate::telemetry::events::PageEvent;
use crate::trace::Trace;

/// What one pass over a page gathers.
struct Pass<'a> {
    request: Request,
    channel: &'a dyn Channel,
    now: Now,
    listings: Vec<Listing>,
    seen: HashSet<EnvelopeId>,
    dead: usize,
    unreadable: usize,
    new: usize,
    reported: HashSet<u64>,
}

impl Pass<'_> {
    fn new(request: Request, channel: &dyn Channel, now: Now) -> Pass<'_> {
        Pass {
            request,
            channel,
            now,
            listings: Vec::new(),
            seen: HashSet::new(),
            dead: 0,
            unreadable: 0,
            new: 0,
            reported: HashSet::new(),
        }
    }
}

impl Desk {
    /// Begins a poll.
    pub(super) fn begin_poll(&mut self, now: Now) -> Request {
        let idle =
            self.gating != Gating::ManyProviders && self.gates.iter().any(|(_, g)| g.closed().is_some());
        let want = match idle || self.seam_gate().is_blocked() {
            true => 1,
            false => Window::want(self.workers, self.usable(now)),
        };
        self.window.begin(self.held(), want, now.mono)
    }

    /// A page arrived.
    pub(super) fn page(&mut self, request: Request, page: &Page, channel: &dyn Channel, now: Now) {
        self.seam_clock = page.date.map(|date| (date, now.mono));
        self.leases.advance(now);
        let mut pass = Pass::new(request, channel, now);
        for element in &page.elements {
            self.take_in(element, &mut pass);
        }
        let listed = page.elements.len();
        // A full page with a place for everybody answers for everybody, but where older envelopes have come
        // back in such number that they push out the youngest. Those are then forgotten for one poll, which
        // costs less than sending what was withdrawn.
        let all = usize::from(request.limit) >= request.held || listed < usize::from(request.limit);
        let coverage = if all { Coverage::All } else { Coverage::OlderThanLast };
        let applied = self.leases.apply(pass.listings, coverage, now);
        for id in &applied.withdrawn {
            self.events.withdrawn(id, &self.channel);
        }
        self.unreadable = pass.unreadable;
        self.reported = pass.reported;
        self.last_request = Some(request);
        let new_due = if self.usable(now) > 0 { applied.new_due } else { 0 };
        let tally = Tally { listed, new_due, dead: pass.dead };
        self.window.arrived(request, tally, now.mono, self.rng.f64());
        let took = now.mono.saturating_duration_since(request.began);
        self.events.page(&self.channel, &PageEvent { listed, new: pass.new, limit: request.limit, took });
        self.watch_for_crowding(request, now);
        self.tidy(now);
        self.ahead(now);
    }

    /// A poll failed. Returns the wait until the next.
    pub(super) fn poll_failed(&mut self, error: &SeamError, now: Now) -> Duration {
        let wait = self.window.failed(error.clone(), now.mono, self.rng.f64());
        self.events.poll_failed(&self.channel, error, wait);
        wait
    }

    fn take_in(&mut self, element: &Element, pass: &mut Pass<'_>) {
        let now = pass.now;
        let Some(id) = element.id() else {
            return self.pass_over(element, pass);
        };
        if !pass.seen.insert(id.clone()) {
            pass.dead += 1;
            return;
        }
        if let Some(key) = self.leases.key_of(id) {
            pass.listings.push(Listing::Held(key));
            return;
        }
        if self.acks.contains(id) {
            return;
        }
        match self.acks.recall(id, pass.request.began, now.mono) {
            Memory::Unknown => self.read(element, pass),
            Memory::Settled => pass.dead += 1,
            Memory::Relisted(status) => {
                self.events.relisted(id, &self.channel, status);
                self.acks.repeat(id, now.mono);
            }
        }
    }

    fn read(&mut self, element: &Element, pass: &mut Pass<'_>) {
        match element.read() {
            Reading::Envelope(envelope) => self.read_envelope(element, Arc::new(*envelope), pass),
            Reading::Malformed { id, error } => {
                self.events.malformed(&id, &self.channel, &error);
                self.refuse(id, &error.refusal(Cause::Malformed), pass.now);
            }
            Reading::Unreadable { id, version } => {
                if self.is_news(element, pass) {
                    self.events.unreadable(&id, &self.channel, &version);
                }
                pass.dead += 1;
                pass.unreadable += 1;
            }
            Reading::Unnamed { .. } => self.pass_over(element, pass),
        }
    }

    fn read_envelope(&mut self, element: &Element, envelope: Arc<Envelope>, pass: &mut Pass<'_>) {
        if envelope.channel != self.channel {
            if self.siblings.contains(&envelope.channel) {
                if self.is_news(element, pass) {
                    self.events.misplaced(&envelope.id, &envelope.channel, &self.channel);
                }
                pass.dead += 1;
                return;
            }
            let error = FieldError::new("channel", "is not one that this worker carries");
            return self.refuse_new(&envelope, &error.refusal(Cause::UnknownChannel), pass.now);
        }
        // A recipient is whatever a browser said: what panics over one must not take the lane along.
        match catch_unwind(AssertUnwindSafe(|| pass.channel.route(&envelope))) {
            Ok(Ok(route)) => {
                pass.new += 1;
                pass.listings.push(Listing::New(envelope, route));
            }
            Ok(Err(refusal)) => self.refuse_new(&envelope, &refusal, pass.now),
            Err(_panic) => {
                let detail = Detail::fixed("its recipient made the worker panic: a defect of the worker");
                self.refuse_new(&envelope, &Refusal::new(Cause::Panic, detail), pass.now);
            }
        }
    }

    fn refuse_new(&mut self, envelope: &Envelope, refusal: &Refusal, now: Now) {
        self.events.refused(&envelope.id, &self.channel, &envelope.template, refusal);
        self.refuse(envelope.id.clone(), refusal, now);
    }

    fn refuse(&mut self, id: EnvelopeId, refusal: &Refusal, now: Now) {
        let ack = Ack { status: AckStatus::Failed, detail: refusal.ack_detail() };
        let (cause, trace) = (refusal.cause, Trace::default());
        self.acks.push(id, Decision { ack, cause, first_listed: now.mono, trace }, now.mono);
    }

    /// An element without a usable id takes a place, and nothing can be done about it.
    fn pass_over(&mut self, element: &Element, pass: &mut Pass<'_>) {
        pass.dead += 1;
        if let (true, Some(problem)) = (self.is_news(element, pass), element.problem()) {
            self.events.unnamed(&self.channel, problem);
        }
    }

    /// What stays in every page is reported when it first shows.
    fn is_news(&self, element: &Element, pass: &mut Pass<'_>) -> bool {
        let fingerprint = element.fingerprint();
        pass.reported.insert(fingerprint) && !self.reported.contains(&fingerprint)
    }

    fn watch_for_crowding(&mut self, request: Request, now: Now) {
        let crowded = self.window.is_full() && self.window.is_widest(request) && self.usable(now) == 0;
        if crowded && !self.crowded {
            self.events.window_full(&self.channel, self.held());
        }
        self.crowded = crowded;
    }

    /// Forgets gates and destinations that no lease stands at any more.
    fn tidy(&mut self, now: Now) {
        let mut gates = HashSet::new();
        let mut destinations = HashSet::new();
        for (_, lease) in self.leases.iter() {
            gates.insert(&lease.route.gate);
            destinations.insert(&lease.route.destination);
        }
        self.gates.tidy(now, |gate| gates.contains(gate), |destination| destinations.contains(destination));
    }
}
