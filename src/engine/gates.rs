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

    /// Lets each closed gate probe at once.
    pub fn probe_all(&mut self, now: Now) {
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

    /// Notes that an attempt at a destination begins.
    pub fn tried(&mut self, destination: &Destination, now: Now) {
        self.destinations.entry(destination.clone()).or_default().tried = Some(now.mono);
    }

    /// When a destination was last tried; never comes first.
    pub fn last_tried(&self, destination: &Destination) -> Option<Instant> {
        self.destinations.get(destination).and_then(|state| state.tried)
    }

    /// Forgets what nobody needs: `needs` says which gates and destinations leases still stand at.
    pub fn tidy(&mut self, now: Now, needs: impl Fn(&GateId) -> bool, needed: impl Fn(&Destination) -> bool) {
        self.destinations.retain(|destination, state| {
            state.held_until.is_some_and(|until| until > now.mono) || needed(destination)
        });
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
