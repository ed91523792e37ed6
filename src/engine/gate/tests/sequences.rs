//! What holds of a gate over any sequence of attempts and waits.

use proptest::prelude::*;

use super::pace::rate;
use super::*;

#[derive(Debug, Clone)]
enum Step {
    Begin,
    End { which: usize, attempt: Attempt, who: usize, random: f64 },
    Abandon(usize),
    Wait(u64),
    ProbeNow,
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    let wait = proptest::option::of((0_u64..4_000).prop_map(seconds));
    let cause = proptest::sample::select(&Cause::ALL[..]);
    (0_usize..7, cause, wait, any::<bool>(), proptest::option::of(1_u32..200)).prop_map(
        |(outcome, cause, after, answered, limit)| {
            let outcome = match outcome {
                0 => return accepted(),
                1 => Outcome::Bounced,
                2 => Outcome::Failed,
                3 => Outcome::Retry { after },
                4 => Outcome::Unclear { after },
                5 => Outcome::Pause { scope: Scope::Destination, after },
                _ => Outcome::Pause { scope: Scope::Provider, after },
            };
            let pace = limit.map(|limit| Pace { limit, window: seconds(1) });
            Attempt { pace, answered, ..Attempt::answered(outcome, cause, Detail::default()) }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Begin),
        5 => (0_usize..64, any_attempt(), 0_usize..5, 0.0_f64..1.0)
            .prop_map(|(which, attempt, who, random)| Step::End { which, attempt, who, random }),
        1 => (0_usize..64).prop_map(Step::Abandon),
        3 => (0_u64..2_000).prop_map(Step::Wait),
        1 => Just(Step::ProbeNow),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..60)
}

fn gating() -> impl Strategy<Value = Gating> {
    proptest::sample::select(vec![
        PUSH,
        EMAIL,
        Gating::OneProvider(Rate::Fixed(rate(3))),
        Gating::OneProvider(Rate::Follow { start: rate(2) }),
    ])
}

/// Begins as the desk does: when the gate admits it, or its probe is due.
fn begin(gate: &mut Gate, now: Now) -> Option<Ticket> {
    let may = match gate.admits(now) {
        Admission::Now => true,
        Admission::Probe(Some(at)) => at <= now.mono,
        Admission::Probe(None) | Admission::At(_) | Admission::Full => false,
    };
    may.then(|| gate.begin(now))
}

/// Plays the steps; `check` sees gate, tickets and time after each.
fn play(
    gate: &mut Gate,
    steps: &[Step],
    mut check: impl FnMut(&Gate, &[Ticket], Now) -> Result<(), TestCaseError>,
) -> Result<(Vec<Ticket>, Now), TestCaseError> {
    let mut now = start();
    let mut tickets: Vec<Ticket> = Vec::new();
    for step in steps {
        match step {
            Step::Begin => tickets.extend(begin(gate, now)),
            Step::End { which, attempt, who: n, random } if !tickets.is_empty() => {
                let ticket = tickets.swap_remove(which % tickets.len());
                gate.end(ticket, attempt, &who(*n), Moment { now, random: *random });
            }
            Step::Abandon(which) if !tickets.is_empty() => {
                gate.abandon(tickets.swap_remove(which % tickets.len()));
            }
            Step::End { .. } | Step::Abandon(_) => {}
            Step::Wait(wait) => now = now.after(seconds(*wait)),
            Step::ProbeNow => gate.probe_now(now),
        }
        check(gate, &tickets, now)?;
    }
    Ok((tickets, now))
}

/// The workers that a gate may have.
fn share(gating: Gating, workers: usize) -> usize {
    workers - usize::from(gating == PUSH && workers > 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_in_flight_is_what_has_begun_and_not_ended(
        gating in gating(), workers in 1_usize..6, steps in steps()
    ) {
        play(&mut gate(gating, workers), &steps, |gate, tickets, _| {
            prop_assert_eq!(gate.in_flight, tickets.len());
            prop_assert!(tickets.len() <= share(gating, workers), "the last worker is for the others");
            Ok(())
        })?;
    }

    #[test]
    fn a_closed_gate_always_has_a_probe_on_its_way_or_to_come(gating in gating(), steps in steps()) {
        play(&mut gate(gating, 4), &steps, |gate, tickets, now| {
            let probes = tickets.iter().filter(|ticket| gate.is_current_probe(**ticket)).count();
            match gate.admits(now) {
                Admission::Probe(Some(at)) => {
                    prop_assert!(at <= now.mono + seconds(4_500), "in {:?}", at - now.mono);
                    prop_assert_eq!(probes, 0);
                }
                Admission::Probe(None) => prop_assert_eq!(probes, 1),
                Admission::Now | Admission::At(_) | Admission::Full => prop_assert!(gate.closed().is_none()),
            }
            Ok(())
        })?;
    }

    #[test]
    fn no_gate_stays_shut_once_the_provider_answers(
        gating in gating(), workers in 1_usize..6, steps in steps()
    ) {
        let mut gate = gate(gating, workers);
        let (tickets, mut now) = play(&mut gate, &steps, |_, _, _| Ok(()))?;
        tickets.into_iter().for_each(|ticket| gate.abandon(ticket));
        for n in 0..4 {
            let at = match gate.admits(now) {
                Admission::Now => now.mono,
                Admission::At(at) => at,
                Admission::Probe(Some(at)) => at.max(now.mono),
                stuck => return Err(TestCaseError::fail(format!("{stuck:?} with nothing in flight"))),
            };
            now = now.after(at - now.mono);
            let ticket = begin(&mut gate, now).ok_or_else(|| TestCaseError::fail("its time has come"))?;
            gate.end(ticket, &accepted(), &who(n), moment(now));
            prop_assert!(gate.closed().is_none(), "an accepted probe opens");
        }
        prop_assert_eq!(gate.capacity(), share(gating, workers), "four successes later all is as before");
    }
}
