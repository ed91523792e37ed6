//! The storm: thousands of long histories in which everything goes wrong that can, each from its seed.
//! Then the faults end, and what was promised must have held.
//!
//! `STORM_HISTORIES` sets how many are played, `STORM_SEED` plays one alone and prints its journal.

mod faults;
mod history;
mod judge;
mod script;
mod watch;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::faults::{Counts, Kind};
use self::history::{Played, play};
use self::judge::{Broken, judge};
use self::watch::Step;

/// Enough for every kind of fault and step, in the time that a test may take.
const HISTORIES: u64 = 120;

/// What all histories came to.
#[derive(Debug)]
struct Figures {
    histories: u64,
    virtual_time: Duration,
    faults: Counts,
    steps: Counts,
    /// The first broken history, and what it broke.
    broken: Option<(u64, Vec<Broken>)>,
}

impl Figures {
    fn new() -> Figures {
        let (faults, steps) = (Counts::of(Kind::ALL.len()), Counts::of(Step::ALL.len()));
        Figures { histories: 0, virtual_time: Duration::ZERO, faults, steps, broken: None }
    }

    fn add(&mut self, seed: u64, played: &Played, broken: Vec<Broken>) {
        self.histories += 1;
        self.virtual_time += played.ended;
        self.faults.merge(&played.faults);
        self.steps.merge(&played.steps);
        if !broken.is_empty() && self.broken.as_ref().is_none_or(|(first, _)| seed < *first) {
            self.broken = Some((seed, broken));
        }
    }

    /// Kinds with how often each came.
    fn counted(&self) -> impl Iterator<Item = (String, u64)> {
        let faults = Kind::ALL.iter().map(|kind| (format!("{kind:?}"), self.faults.get(*kind as usize)));
        let steps = Step::ALL.iter().map(|step| (format!("{step:?}"), self.steps.get(*step as usize)));
        faults.chain(steps)
    }
}

/// Plays one history in a runtime of its own.
fn played(seed: u64) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(play(seed))
}

/// Plays histories on every core until all are played or one is broken.
fn storm(seeds: std::ops::Range<u64>) -> Figures {
    let (next, figures) = (AtomicU64::new(seeds.start), Mutex::new(Figures::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || figures.lock().unwrap().broken.is_some() {
                        return;
                    }
                    let played = played(seed);
                    let broken = judge(&played);
                    figures.lock().unwrap().add(seed, &played, broken);
                }
            });
        }
    });
    figures.into_inner().unwrap()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn journal(played: &Played) -> String {
    let tries: Vec<_> = played.world.carriers.iter().flat_map(|carrier| carrier.tries()).collect();
    let posts = played.world.outbox.posts();
    let mut lines: Vec<(Duration, String)> = tries.iter().map(|t| (t.began, format!("{t:?}"))).collect();
    lines.extend(posts.iter().map(|post| (post.at, format!("{post:?}"))));
    lines.extend(played.lives.iter().map(|life| (life.span.start, format!("{life:?}"))));
    lines.extend(played.sheets.iter().map(|sheet| (sheet.added, format!("{sheet:?}"))));
    lines.sort_by_key(|(at, _)| *at);
    lines.into_iter().map(|(at, line)| format!("{:>9.3} {line}\n", at.as_secs_f64())).collect()
}

#[test]
fn promises_hold_whatever_goes_wrong() {
    if let Some(seed) = number("STORM_SEED") {
        let played = played(seed);
        print!("{}", journal(&played));
        return assert_eq!(judge(&played), [], "seed {seed}");
    }
    let began = Instant::now();
    let figures = storm(0..number("STORM_HISTORIES").unwrap_or(HISTORIES));
    let (histories, hours) = (figures.histories, figures.virtual_time.as_secs() / 3600);
    println!("{histories} histories, {hours} virtual hours, {:?}", began.elapsed());
    figures.counted().for_each(|(kind, count)| println!("{kind} {count}"));
    if let Some((seed, broken)) = figures.broken {
        panic!("after {histories} histories, STORM_SEED={seed}: {} {}", broken[0].rule, broken[0].what);
    }
    let missed: Vec<String> =
        figures.counted().filter(|(_, count)| *count == 0).map(|(kind, _)| kind).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}

#[test]
fn a_history_can_be_played_again() {
    let (first, second) = (played(7), played(7));
    assert_eq!(journal(&first), journal(&second));
    assert_eq!(first.world.outbox.polls(), second.world.outbox.polls());
    assert_eq!((first.faults, first.steps), (second.faults, second.steps));
}
