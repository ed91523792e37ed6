//! The gates of one lane, by provider, and the destinations that are held.
//!
//! Owns which gates exist and when one is forgotten: push endpoints name their own providers, so
//! hostile ones must not make this grow. It must not know what a gate does with an answer.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::gate::{Admission, Gate};
use super::retry::Schedule;
use crate::channel::{Destination, GateId, Gating};
use crate::clock::Now;

/// Gates that are kept although nobody needs them, for what they have learnt: more than all known push
/// services have origins in daily use.
const IDLE_KEPT: usize = 64;

/// The gates of one lane.
#[derive(Debug)]
pub struct Gates {
    gating: Gating,
    workers: usize,
    outage: Schedule,
    gates: BTreeMap<GateId, (Gate, Instant)>,
    destinations: HashMap<Destination, DestinationState>,
}

#[derive(Debug, Default)]
struct DestinationState {
    tried: Option<Instant>,
    asked_until: Option<Instant>,
    held_until: Option<Instant>,
}

impl Gates {
    /// No gates yet.
    pub fn new(gating: Gating, workers: usize, outage: Schedule) -> Gates {
        Gates { gating, workers, outage, gates: BTreeMap::new(), destinations: HashMap::new() }
    }

    /// The gate of `id`, made when it is first needed.
    pub fn get_mut(&mut self, id: &GateId, now: Now) -> &mut Gate {
        let (gating, workers, outage) = (self.gating, self.workers, &self.outage);
        let make = || (Gate::new(gating, workers, outage.clone()), now.mono);
        let (gate, used) = self.gates.entry(id.clone()).or_insert_with(make);
        *used = now.mono;
        gate
    }

    /// The gate of `id`, if there has been need of one.
    pub fn get(&self, id: &GateId) -> Option<&Gate> {
        self.gates.get(id).map(|(gate, _)| gate)
    }

    /// Every gate.
    pub fn iter(&self) -> impl Iterator<Item = (&GateId, &Gate)> {
        self.gates.iter().map(|(id, (gate, _))| (id, gate))
    }

    /// Whether an attempt at `id` may begin. A gate that nobody has needed yet is open.
    pub fn admits(&self, id: &GateId, now: Now) -> Admission {
        self.get(id).map_or(Admission::Now, |gate| gate.admits(now))
    }

    /// Closed gates whose probe is due.
    pub fn to_probe(&self, now: Now) -> Vec<GateId> {
        let due = |gate: &Gate| matches!(gate.admits(now), Admission::Probe(Some(at)) if at <= now.mono);
        self.iter().filter(|(_, gate)| due(gate)).map(|(id, _)| id.clone()).collect()
    }

    /// Lets each closed gate probe at once, whatever wait its destinations asked for.
    pub fn probe_all(&mut self, now: Now) {
        self.destinations.values_mut().for_each(|state| state.asked_until = None);
        for (gate, _) in self.gates.values_mut() {
            gate.probe_now(now);
        }
    }

    /// Holds a destination until `until`.
    pub fn hold(&mut self, destination: &Destination, until: Instant) {
        let state = self.destinations.entry(destination.clone()).or_default();
        state.held_until = Some(state.held_until.map_or(until, |held| held.max(until)));
    }

    /// Until when a destination is held, if it is.
    pub fn held_until(&self, destination: &Destination, now: Now) -> Option<Instant> {
        self.destinations.get(destination)?.held_until.filter(|until| *until > now.mono)
    }

    /// Notes that the provider asks for a destination to be left alone until `until`.
    pub fn ask(&mut self, destination: &Destination, until: Instant) {
        let state = self.destinations.entry(destination.clone()).or_default();
        state.asked_until = Some(state.asked_until.map_or(until, |asked| asked.max(until)));
    }

    /// Whether a destination may be probed: not sooner than its provider asked for.
    pub fn may_probe(&self, destination: &Destination, now: Now) -> bool {
        let asked = self.destinations.get(destination).and_then(|state| state.asked_until);
        asked.is_none_or(|until| until <= now.mono)
    }

    /// Notes that an attempt at a destination begins.
    pub fn tried(&mut self, destination: &Destination, now: Now) {
        self.destinations.entry(destination.clone()).or_default().tried = Some(now.mono);
    }

    /// When a destination was last tried; never comes first.
    pub fn last_tried(&self, destination: &Destination) -> Option<Instant> {
        self.destinations.get(destination).and_then(|state| state.tried)
    }

    /// Forgets what nobody needs. Of many providers one that is closed is forgotten too: no probe would
    /// ever open it, and whoever named it must not keep the worker from being ready. `needs` says which gates and destinations leases still stand at.
    pub fn tidy(&mut self, now: Now, needs: impl Fn(&GateId) -> bool, needed: impl Fn(&Destination) -> bool) {
        self.destinations.retain(|destination, state| {
            state.held_until.is_some_and(|until| until > now.mono) || needed(destination)
        });
        let many = self.gating == Gating::ManyProviders;
        self.gates.retain(|id, (gate, _)| !(many && gate.closed().is_some()) || gate.is_busy() || needs(id));
        let mut idle: Vec<(Instant, GateId)> = self
            .gates
            .iter()
            .filter(|(id, (gate, _))| !needs(id) && !gate.is_busy())
            .map(|(id, (_, used))| (*used, id.clone()))
            .collect();
        idle.sort_unstable();
        let surplus = idle.len().saturating_sub(IDLE_KEPT);
        for (_, id) in idle.into_iter().take(surplus) {
            self.gates.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::channel::{Attempt, Rate};
    use crate::clock::Moment;
    use crate::engine::gate::Suspect;
    use crate::envelope::EnvelopeId;
    use crate::outcome::{Cause, Detail, Outcome, Scope};

    fn start() -> Now {
        Now { mono: Instant::now(), wall: "2026-08-03T06:00:00Z".parse().unwrap() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn gates() -> Gates {
        Gates::new(Gating::ManyProviders, 4, Schedule::new(seconds(2), seconds(900)))
    }

    fn id(n: usize) -> GateId {
        GateId::new(&format!("https://push-{n}.test"), "other")
    }

    fn close(gates: &mut Gates, id: &GateId, now: Now) {
        let gate = gates.get_mut(id, now);
        let outcome = Outcome::Pause { scope: Scope::Provider, after: None };
        let attempt = Attempt::answered(outcome, Cause::ApiKey, Detail::default());
        let who = Suspect { id: EnvelopeId::new("e").unwrap(), destination: Destination::new("d") };
        let ticket = gate.begin(now);
        gate.end(ticket, &attempt, &who, Moment { now, random: 0.0 });
    }

    #[test]
    fn a_gate_that_nobody_has_needed_yet_is_open() {
        assert_eq!(gates().admits(&id(0), start()), Admission::Now);
    }

    #[test]
    fn gates_are_made_for_their_lanes_rate() {
        let rate = Gating::OneProvider(Rate::Fixed(NonZeroU32::new(2).unwrap()));
        let mut gates = Gates::new(rate, 4, Schedule::new(seconds(2), seconds(900)));
        let now = start();
        let ticket = gates.get_mut(&id(0), now).begin(now);
        assert_eq!(gates.admits(&id(0), now), Admission::At(now.mono + Duration::from_millis(500)));
        gates.get_mut(&id(0), now).abandon(ticket);
    }

    #[test]
    fn only_closed_gates_whose_time_has_come_are_probed() {
        let (mut gates, now) = (gates(), start());
        close(&mut gates, &id(1), now);
        close(&mut gates, &id(2), now.after(seconds(10)));
        gates.get_mut(&id(3), now);
        assert!(gates.to_probe(now.after(seconds(29))).is_empty());
        assert_eq!(gates.to_probe(now.after(seconds(30))), [id(1)]);
        gates.probe_all(now.after(seconds(30)));
        let mut due = gates.to_probe(now.after(seconds(30)));
        due.sort();
        assert_eq!(due, [id(1), id(2)]);
    }

    #[test]
    fn a_destination_is_held_until_the_latest_instant_that_was_asked_for() {
        let (mut gates, now) = (gates(), start());
        let (ann, bob) = (Destination::new("ann"), Destination::new("bob"));
        gates.hold(&ann, now.mono + seconds(60));
        gates.hold(&ann, now.mono + seconds(5));
        assert_eq!(gates.held_until(&ann, now), Some(now.mono + seconds(60)));
        assert_eq!(gates.held_until(&ann, now.after(seconds(60))), None);
        assert_eq!(gates.held_until(&bob, now), None, "the others go on");
    }

    #[test]
    fn a_destination_that_was_never_tried_comes_first() {
        let (mut gates, now) = (gates(), start());
        let (ann, bob) = (Destination::new("ann"), Destination::new("bob"));
        gates.tried(&ann, now);
        assert!(gates.last_tried(&bob) < gates.last_tried(&ann));
    }

    #[test]
    fn hostile_origins_and_destinations_are_forgotten() {
        let (mut gates, now) = (gates(), start());
        let destination = |n: usize| Destination::new(&format!("d-{n}"));
        for n in 0..1_000 {
            let later = now.after(Duration::from_millis(n as u64));
            gates.get_mut(&id(n), later);
            gates.tried(&destination(n), later);
        }
        gates.hold(&destination(1), now.mono + seconds(60));
        let busy = gates.get_mut(&id(7), now).begin(now);
        gates.tidy(now.after(seconds(2)), |gate| *gate == id(5), |d| *d == destination(5));
        assert_eq!(gates.iter().count(), IDLE_KEPT + 2);
        for kept in [id(5), id(7), id(999)] {
            assert!(gates.get(&kept).is_some(), "needed, busy, or used of late");
        }
        assert!(gates.get(&id(6)).is_none());
        assert_eq!(gates.destinations.len(), 2, "needed or held");
        gates.get_mut(&id(7), now).abandon(busy);
    }
}
