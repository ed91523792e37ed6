//! A seam, a desk and a clock that do as they are told, beside a plain account of what must be held.

use proptest::prelude::*;

use super::*;

/// Everything that can happen to a table. The numbers choose among what there is.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// The app writes an envelope, this far from the end of its list.
    Enqueue { from_end: usize, record: usize, not_before: Option<i64> },
    /// The user unsubscribes, or it expires.
    Withdraw(usize),
    /// A page of at most `limit`; `swap`: the seam's order is another one this time.
    Page { limit: usize, swap: Option<usize> },
    /// A worker takes what is oldest at a gate.
    Take(usize),
    /// A worker takes a probe at a gate.
    Probe(usize),
    /// A worker tries to take whatever it likes.
    Claim(usize),
    /// An attempt ends in a wait of this many milliseconds.
    Wait(usize, u64),
    /// A free lease is kept back, as for a destination that is held.
    KeepBack(usize, u64),
    /// An outcome is known.
    Decide { which: usize, accepted: bool },
    /// An ack is through.
    Ack(usize),
    /// An ack is refused for good.
    AckRefused(usize),
    /// Time passes, in milliseconds.
    Tick(u64),
    /// The wall clock is set, by seconds.
    SetClock(i64),
}

/// How the seam behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeamOrder {
    /// As the contract says, but for transactions that commit late.
    Kept,
    /// It changes from page to page.
    Any,
}

pub(super) fn ops(order: SeamOrder) -> impl Strategy<Value = Vec<Op>> {
    let swap = match order {
        SeamOrder::Kept => Just(None).boxed(),
        SeamOrder::Any => proptest::option::weighted(0.3, 0_usize..8).boxed(),
    };
    let n = 0_usize..64;
    let op = prop_oneof![
        6 => (prop_oneof![3 => Just(0_usize), 1 => 0_usize..6], 0_usize..4, proptest::option::weighted(0.3, -3_i64..20))
            .prop_map(|(from_end, record, not_before)| Op::Enqueue { from_end, record, not_before }),
        1 => n.clone().prop_map(Op::Withdraw),
        6 => (1_usize..12, swap).prop_map(|(limit, swap)| Op::Page { limit, swap }),
        5 => n.clone().prop_map(Op::Take),
        1 => n.clone().prop_map(Op::Probe),
        1 => n.clone().prop_map(Op::Claim),
        3 => (n.clone(), 0_u64..8_000).prop_map(|(which, wait)| Op::Wait(which, wait)),
        1 => (n.clone(), 0_u64..8_000).prop_map(|(which, wait)| Op::KeepBack(which, wait)),
        3 => (n.clone(), any::<bool>()).prop_map(|(which, accepted)| Op::Decide { which, accepted }),
        2 => n.clone().prop_map(Op::Ack),
        1 => n.prop_map(Op::AckRefused),
        3 => (0_u64..6_000).prop_map(Op::Tick),
        1 => (-30_i64..30).prop_map(Op::SetClock),
    ];
    proptest::collection::vec(op, 1..80)
}

/// Where one lease must stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Ready,
    Sending { withdrawn: bool },
    Waiting(Instant),
    Decided { in_line: bool },
}

/// One lease that must be held.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) id: usize,
    pub(super) record: usize,
    pub(super) not_before: Option<DateTime<Utc>>,
    pub(super) due: bool,
    pub(super) listed: Instant,
    pub(super) stage: Stage,
}

/// What the app has pending.
#[derive(Debug, Clone, Copy)]
struct Pending {
    id: usize,
    record: usize,
    not_before: Option<DateTime<Utc>>,
}

/// One lease handed to a worker, and the account as it was just before.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) id: usize,
    pub(super) checked_fresh: bool,
    pub(super) before: Vec<Hold>,
}

pub(super) struct World {
    pub(super) table: Leases,
    /// In the seam's order, as far as pages have told it.
    pub(super) account: Vec<Hold>,
    pub(super) now: Now,
    pub(super) handed: Vec<Handed>,
    /// What pages have dropped although the app still had it.
    pub(super) lost: Vec<usize>,
    /// What an answering page has left out since it was last listed.
    pub(super) left_out: BTreeSet<usize>,
    pub(super) decided: BTreeSet<usize>,
    app: Vec<Pending>,
    created: usize,
}

/// Records 0 and 1 stand at one gate, 2 and 3 at another.
pub(super) fn gate_of(record: usize) -> GateId {
    GateId::new(if record < 2 { "one" } else { "two" }, "gate")
}

pub(super) fn gates() -> [GateId; 2] {
    [gate_of(0), gate_of(2)]
}

fn listing(pending: Pending) -> Listing {
    let record = format!("destination-{}", pending.record);
    let route = Route { gate: gate_of(pending.record), destination: Destination::new(&record) };
    Listing::New(envelope(&pending.id.to_string(), "nudge.v1", pending.not_before), route)
}

fn pick<T>(mut found: impl Iterator<Item = T>, which: usize, count: usize) -> Option<T> {
    if count == 0 { None } else { found.nth(which % count) }
}

impl World {
    pub(super) fn new() -> World {
        World {
            table: Leases::new(FRESHNESS),
            account: Vec::new(),
            now: now(),
            handed: Vec::new(),
            lost: Vec::new(),
            left_out: BTreeSet::new(),
            decided: BTreeSet::new(),
            app: Vec::new(),
            created: 0,
        }
    }

    pub(super) fn key(&self, id: usize) -> Key {
        key(&self.table, &id.to_string())
    }

    pub(super) fn play(&mut self, op: &Op) {
        self.handed.clear();
        self.lost.clear();
        match *op {
            Op::Enqueue { from_end, record, not_before } => self.enqueue(from_end, record, not_before),
            Op::Withdraw(which) => {
                if !self.app.is_empty() {
                    self.app.remove(which % self.app.len());
                }
            }
            Op::Page { limit, swap } => self.page(limit, swap),
            Op::Take(which) => self.take(&gates()[which % 2]),
            Op::Probe(which) => self.probe(&gates()[which % 2]),
            Op::Claim(which) => self.claim(which),
            Op::Wait(which, wait) => self.end(which, Some(wait), false),
            Op::Decide { which, accepted } => self.end(which, None, accepted),
            Op::KeepBack(which, wait) => self.keep_back(which, wait),
            Op::Ack(which) => self.ack(which, true),
            Op::AckRefused(which) => self.ack(which, false),
            Op::Tick(millis) => self.now = self.now.after(Duration::from_millis(millis)),
            Op::SetClock(seconds) => self.now.wall += TimeDelta::seconds(seconds),
        }
    }

    fn enqueue(&mut self, from_end: usize, record: usize, not_before: Option<i64>) {
        self.created += 1;
        let not_before = not_before.map(|seconds| self.now.wall + TimeDelta::seconds(seconds));
        let place = self.app.len().saturating_sub(from_end);
        self.app.insert(place, Pending { id: self.created, record, not_before });
    }

    fn advance(&mut self) {
        self.table.advance(self.now);
        for hold in &mut self.account {
            hold.due |= hold.not_before.is_none_or(|instant| instant <= self.now.wall);
            if matches!(hold.stage, Stage::Waiting(until) if until <= self.now.mono) {
                hold.stage = Stage::Ready;
            }
        }
    }

    /// A page, and what it must mean: it is the head of the app's list, so it tells of everything if it
    /// is short, else of what stood before its last element that was known.
    fn page(&mut self, limit: usize, swap: Option<usize>) {
        self.advance();
        let mut page: Vec<Pending> = self.app.iter().take(limit).copied().collect();
        if let Some(at) = swap.filter(|at| at + 1 < page.len()) {
            page.swap(at, at + 1);
        }
        let whole = page.len() < limit;
        let coverage = if whole { Coverage::All } else { Coverage::OlderThanLast };
        let is_listed = |id: usize| page.iter().any(|pending| pending.id == id);
        let last_known =
            page.iter().rev().find_map(|pending| self.account.iter().position(|h| h.id == pending.id));
        let answered = if whole { self.account.len() } else { last_known.unwrap_or(0) };
        let (before, behind) = self.account.split_at(answered);
        let (mut account, mut left_out) = (Vec::new(), Vec::new());
        for hold in before.iter().filter(|hold| !is_listed(hold.id)) {
            self.left_out.insert(hold.id);
            match hold.stage {
                Stage::Ready | Stage::Waiting(_) => left_out.push(hold.id),
                Stage::Sending { .. } => {
                    account.push(Hold { stage: Stage::Sending { withdrawn: true }, ..hold.clone() });
                }
                Stage::Decided { .. } => account.push(hold.clone()),
            }
        }
        for pending in &page {
            self.left_out.remove(&pending.id);
            account.push(self.listed(*pending));
        }
        account.extend(behind.iter().filter(|hold| !is_listed(hold.id)).cloned());
        self.lost = left_out.iter().copied().filter(|id| self.app.iter().any(|p| p.id == *id)).collect();
        let id_of = |pending: &Pending| EnvelopeId::new(pending.id.to_string()).unwrap();
        let listings = page.iter().map(|p| match self.table.key_of(&id_of(p)) {
            Some(key) => Listing::Held(key),
            None => listing(*p),
        });
        let applied = self.table.apply(listings.collect(), coverage, self.now);
        let withdrawn: BTreeSet<usize> =
            applied.withdrawn.iter().map(|id| id.as_str().parse().unwrap()).collect();
        assert_eq!(withdrawn, left_out.into_iter().collect());
        let known = |id| self.account.iter().any(|hold| hold.id == id);
        let new_due = account.iter().filter(|hold| !known(hold.id) && hold.due).count();
        assert_eq!(applied.new_due, new_due);
        self.account = account;
    }

    fn listed(&self, pending: Pending) -> Hold {
        let Pending { id, record, not_before } = pending;
        let known = self.account.iter().find(|hold| hold.id == id).cloned();
        let due = not_before.is_none_or(|instant| instant <= self.now.wall);
        let hold =
            known.unwrap_or(Hold { id, record, not_before, due, listed: self.now.mono, stage: Stage::Ready });
        let stage = match hold.stage {
            Stage::Sending { .. } => Stage::Sending { withdrawn: false },
            stage => stage,
        };
        Hold { listed: self.now.mono, stage, ..hold }
    }

    fn take(&mut self, gate: &GateId) {
        self.advance();
        for _ in 0..=self.account.len() {
            match self.table.oldest_ready(gate, self.now) {
                Some((_, key)) if !self.hand_out(key, true) => {}
                Some(_) | None => return,
            }
        }
        panic!("what has stepped back is offered again");
    }

    fn probe(&mut self, gate: &GateId) {
        self.advance();
        let found: Option<Key> = self.table.probe_candidates(gate, self.now).map(|(key, _)| key).min();
        if let Some(key) = found {
            self.hand_out(key, true);
        }
    }

    fn claim(&mut self, which: usize) {
        if let Some(hold) = pick(self.account.iter(), which, self.account.len()) {
            self.hand_out(self.key(hold.id), false);
        }
    }

    /// As the desk does: what is not due after all steps back, the rest is claimed.
    fn hand_out(&mut self, key: Key, checked_fresh: bool) -> bool {
        let lease = self.table.get(key).unwrap();
        let id: usize = lease.envelope.id.as_str().parse().unwrap();
        let early = lease.envelope.not_before.is_some_and(|instant| instant > self.now.wall);
        let before = self.account.clone();
        let hold = self.account.iter_mut().find(|hold| hold.id == id).unwrap();
        let is_free = matches!(hold.stage, Stage::Ready | Stage::Waiting(_));
        if early && is_free {
            hold.due = false;
            self.table.not_yet_due(key);
            return false;
        }
        let claimed = self.table.claim(key);
        assert!(claimed || !checked_fresh, "what is offered can be taken");
        if claimed {
            hold.stage = Stage::Sending { withdrawn: false };
            self.handed.push(Handed { id, checked_fresh, before });
        }
        claimed
    }

    fn end(&mut self, which: usize, wait: Option<u64>, accepted: bool) {
        let is_sent = |hold: &Hold| matches!(hold.stage, Stage::Sending { .. });
        let count = self.account.iter().filter(|hold| is_sent(hold)).count();
        let sending = self.account.iter_mut().filter(|hold| is_sent(hold));
        let Some(hold) = pick(sending, which, count) else { return };
        let id = hold.id;
        let key = key(&self.table, &id.to_string());
        let Some(wait) = wait else {
            hold.stage = Stage::Decided { in_line: !accepted };
            // What a provider has accepted is decided at once, or waits for its final word until it is acked.
            match accepted && id % 2 == 1 {
                true => self.table.accept(key),
                false => self.table.decide(key, accepted),
            }
            self.decided.insert(id);
            return;
        };
        let until = self.now.mono + Duration::from_millis(wait);
        let gone = self.table.wait(key, until).is_some();
        assert_eq!(gone, hold.stage == Stage::Sending { withdrawn: true });
        hold.stage = Stage::Waiting(until);
        if gone {
            self.account.retain(|hold| hold.id != id);
        }
    }

    fn keep_back(&mut self, which: usize, wait: u64) {
        let is_free = |hold: &Hold| matches!(hold.stage, Stage::Ready | Stage::Waiting(_));
        let count = self.account.iter().filter(|hold| is_free(hold)).count();
        let Some(hold) = pick(self.account.iter_mut().filter(|hold| is_free(hold)), which, count) else {
            return;
        };
        let until = self.now.mono + Duration::from_millis(wait);
        hold.stage = Stage::Waiting(until);
        assert_eq!(self.table.wait(key(&self.table, &hold.id.to_string()), until), None);
    }

    fn ack(&mut self, which: usize, through: bool) {
        let is_decided = |hold: &Hold| matches!(hold.stage, Stage::Decided { .. });
        let count = self.account.iter().filter(|hold| is_decided(hold)).count();
        let Some(hold) = pick(self.account.iter_mut().filter(|hold| is_decided(hold)), which, count) else {
            return;
        };
        let id = hold.id;
        let name = EnvelopeId::new(id.to_string()).unwrap();
        if through {
            self.table.decide(key(&self.table, &id.to_string()), true);
            self.table.release(&name);
            self.account.retain(|hold| hold.id != id);
            self.app.retain(|pending| pending.id != id);
        } else {
            hold.stage = Stage::Decided { in_line: false };
            self.table.make_way(&name);
        }
    }

    /// Whether nothing in front of it, in its record's line, keeps a lease back.
    pub(super) fn is_head(&self, place: usize) -> bool {
        let hold = &self.account[place];
        in_line(hold)
            && !self.account[..place].iter().any(|older| older.record == hold.record && in_line(older))
    }

    pub(super) fn is_fresh(&self, hold: &Hold) -> bool {
        self.now.mono - hold.listed < FRESHNESS
    }

    /// Empties app and table by the ways that there are.
    pub(super) fn wind_up(&mut self) {
        while self.account.iter().any(|hold| matches!(hold.stage, Stage::Sending { .. })) {
            self.play(&Op::Decide { which: 0, accepted: true });
        }
        self.app.clear();
        self.play(&Op::Page { limit: 100, swap: None });
        while !self.account.is_empty() {
            self.play(&Op::Ack(0));
        }
    }
}

pub(super) fn in_line(hold: &Hold) -> bool {
    hold.due && hold.stage != Stage::Decided { in_line: false }
}
