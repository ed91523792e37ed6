//! Promises of the table, over random histories of pages, workers, acks and clocks.

use proptest::prelude::*;

use super::world::{Hold, Op, SeamOrder, Stage, World, gate_of, gates, in_line, ops};
use super::*;

fn play(ops: &[Op], mut check: impl FnMut(&World) -> Result<(), TestCaseError>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    ops.iter().try_for_each(|op| {
        world.play(op);
        check(&world)
    })
}

/// Each lease that was handed out in the last step, with its hold and what stood in front of it.
fn handed(world: &World) -> impl Iterator<Item = (&Hold, &[Hold], bool)> {
    world.handed.iter().map(|handed| {
        let place = handed.before.iter().position(|hold| hold.id == handed.id).unwrap();
        let (front, rest) = handed.before.split_at(place);
        (&rest[0], front, handed.checked_fresh)
    })
}

/// What the account says of a lease, in the table's words.
fn state(hold: &Hold) -> State {
    match hold.stage {
        Stage::Ready => State::Ready,
        Stage::Sending { withdrawn } => State::Sending { withdrawn },
        Stage::Waiting(until) => State::Waiting { until },
        Stage::Decided { .. } => State::Decided,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn two_workers_never_hold_one_id(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            for (hold, _, _) in handed(world) {
                prop_assert!(!matches!(hold.stage, Stage::Sending { .. }), "{hold:?}");
            }
            let ids: BTreeSet<_> = world.table.iter().map(|(_, lease)| &lease.envelope.id).collect();
            prop_assert_eq!(ids.len(), world.table.len(), "one lease an id");
            Ok(())
        })?;
    }

    #[test]
    fn a_younger_one_is_never_handed_out_before_an_older_due_one_of_its_record(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            for (hold, front, _) in handed(world) {
                let older = front.iter().find(|older| older.record == hold.record && in_line(older));
                prop_assert!(older.is_none(), "{hold:?} before {older:?}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_is_handed_out_that_is_stale_or_that_an_answering_page_left_out(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            for (hold, _, checked) in handed(world) {
                prop_assert!(!checked || world.is_fresh(hold), "{hold:?}");
                prop_assert!(!world.left_out.contains(&hold.id), "{hold:?}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_is_handed_out_before_its_time(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            for (hold, _, _) in handed(world) {
                prop_assert!(hold.not_before.is_none_or(|instant| instant <= world.now.wall), "{hold:?}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_decided_is_handed_out_again(ops in ops(SeamOrder::Any)) {
        let mut decided = BTreeSet::new();
        play(&ops, |world| {
            for (hold, _, _) in handed(world) {
                prop_assert!(!decided.contains(&hold.id), "{hold:?}");
            }
            decided.clone_from(&world.decided);
            Ok(())
        })?;
    }

    #[test]
    fn every_listed_id_is_held_until_it_is_withdrawn_or_released(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            let held: BTreeMap<_, _> = world
                .table
                .iter()
                .map(|(_, lease)| (lease.envelope.id.to_string(), (as_decided(lease.state()), lease.is_due())))
                .collect();
            let account: BTreeMap<_, _> =
                world.account.iter().map(|hold| (hold.id.to_string(), (state(hold), hold.due))).collect();
            prop_assert_eq!(held, account);
            Ok(())
        })?;
    }

    #[test]
    fn a_page_drops_nothing_that_the_app_still_has(ops in ops(SeamOrder::Kept)) {
        play(&ops, |world| {
            prop_assert!(world.lost.is_empty(), "{:?}", world.lost);
            Ok(())
        })?;
    }

    #[test]
    fn whatever_is_eligible_is_offered_oldest_first(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            for gate in gates() {
                let heads = |wanted: fn(Stage) -> bool| {
                    let found = world.account.iter().enumerate().filter(move |(_, h)| wanted(h.stage));
                    let found = found.filter(|(place, _)| world.is_head(*place)).map(|(_, hold)| hold);
                    found.filter(|hold| gate_of(hold.record) == gate).collect::<Vec<_>>()
                };
                let ready = heads(|stage| stage == Stage::Ready);
                let oldest = ready.iter().find(|hold| world.is_fresh(hold)).map(|hold| world.key(hold.id));
                prop_assert_eq!(world.table.oldest_ready(&gate, world.now).map(|(_, key)| key), oldest);
                prop_assert_eq!(world.table.ready_at(&gate), ready.len());
                let free = heads(|stage| matches!(stage, Stage::Ready | Stage::Waiting(_)));
                let (fresh, stale): (Vec<&Hold>, Vec<_>) = free.into_iter().partition(|h| world.is_fresh(h));
                let probes: BTreeSet<Key> =
                    world.table.probe_candidates(&gate, world.now).map(|(key, _)| key).collect();
                prop_assert_eq!(probes, fresh.iter().map(|hold| world.key(hold.id)).collect());
                prop_assert_eq!(world.table.has_stale_head(&gate, world.now), !stale.is_empty());
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_but_the_next_change_is_waited_for(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| {
            let waits = world.account.iter().filter_map(|hold| match hold.stage {
                Stage::Waiting(until) => Some(until),
                Stage::Ready | Stage::Sending { .. } | Stage::Decided { .. } => None,
            });
            let not_due = world.account.iter().filter(|hold| !hold.due).filter_map(|hold| hold.not_before);
            let next = waits.chain(not_due.map(|instant| world.now.when(instant))).min();
            prop_assert_eq!(world.table.next_change(world.now), next);
            Ok(())
        })?;
    }

    #[test]
    fn each_index_holds_what_the_leases_say_and_nothing_else(ops in ops(SeamOrder::Any)) {
        play(&ops, |world| consistent(&world.table))?;
    }

    #[test]
    fn an_empty_table_has_empty_indexes(ops in ops(SeamOrder::Any)) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.play(op));
        world.wind_up();
        let Leases { keys, leases, lines, offered, waiting, not_due, .. } = &world.table;
        prop_assert!(leases.is_empty() && keys.is_empty() && lines.is_empty(), "{:?}", world.table);
        prop_assert!(offered.is_empty() && waiting.is_empty() && not_due.is_empty(), "{:?}", world.table);
    }
}

/// What a provider has accepted is to the table as what is decided.
fn as_decided(state: State) -> State {
    if state == State::Accepted { State::Decided } else { state }
}

/// Builds each index anew from the leases and compares.
fn consistent(table: &Leases) -> Result<(), TestCaseError> {
    let ids: HashMap<_, _> = table.iter().map(|(key, lease)| (lease.envelope.id.clone(), key)).collect();
    prop_assert_eq!(&table.keys, &ids);
    let waiting: BTreeSet<_> = table
        .iter()
        .filter_map(|(key, lease)| match lease.state {
            State::Waiting { until } => Some((until, key)),
            State::Ready | State::Sending { .. } | State::Accepted | State::Decided => None,
        })
        .collect();
    prop_assert_eq!(&table.waiting, &waiting);
    let not_due: BTreeSet<_> = table
        .iter()
        .filter(|(_, lease)| !lease.due)
        .filter_map(|(key, lease)| Some((lease.envelope.not_before?, key)))
        .collect();
    prop_assert_eq!(&table.not_due, &not_due);
    let orders: BTreeSet<u64> = table.iter().map(|(_, lease)| lease.order).collect();
    prop_assert_eq!(orders.len(), table.len(), "each has a place of its own");
    let mut offered: BTreeMap<GateId, BTreeSet<(Place, Key)>> = BTreeMap::new();
    for (record, line) in &table.lines {
        let members: Vec<&Lease> = line.members.iter().filter_map(|key| table.get(*key)).collect();
        prop_assert_eq!(members.len(), line.members.len());
        prop_assert!(!members.is_empty() && members.is_sorted_by_key(|lease| lease.order));
        prop_assert!(members.iter().all(|lease| lease.record == *record));
        let head = line.members.iter().zip(&members).find(|(_, lease)| lease.due);
        let ready = head.filter(|(_, lease)| lease.state == State::Ready);
        prop_assert_eq!(line.offered, ready.map(|(key, _)| *key));
        if let Some((key, lease)) = ready {
            offered.entry(lease.route.gate.clone()).or_default().insert((lease.place(), *key));
        }
    }
    prop_assert_eq!(&table.offered, &offered);
    let in_lines: usize = table.lines.values().map(|line| line.members.len()).sum();
    let is_open = |lease: &Lease| !matches!(lease.state, State::Accepted | State::Decided);
    let undecided = table.iter().filter(|(_, lease)| is_open(lease)).count();
    prop_assert!(in_lines >= undecided, "whoever is undecided stands in a line");
    Ok(())
}
