//! What was promised, judged by the journals of outbox and providers alone.
//!
//! Where a journal cannot tell whether a rule was broken, nothing is said: every verdict is a real one.

use std::collections::HashMap;
use std::time::Duration;

use super::faults::{Nature, STALE_AT_MOST};
use super::history::{JUNK, Life, Played};
use super::script::Sheet;
use crate::channel::confirm::Question;
use crate::engine::tests::carrier::Try;
use crate::engine::tests::outbox::{Poll, Post};
use crate::engine::tests::world::secs;
use crate::outcome::{AckStatus, Cause, Outcome, Scope};

/// Clocks may differ by so much unnoticed, and a moment for what is under way.
const CLOCK_SLACK: Duration = Duration::from_secs(61);
/// The longest wait that nobody has asked for, with its jitter, a poll and an exchange.
const LONGEST_WAIT: Duration = Duration::from_secs(900);
const WAIT_SLACK: Duration = Duration::from_secs(150);
/// A wait of a provider's own for a mended account begins with this.
const FIRST_PROBE: Duration = Duration::from_secs(30);
/// Unclear for so long, an envelope is not sent again.
const UNCLEAR_LIMIT: Duration = Duration::from_secs(23 * 3600);

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) what: String,
}

/// What the journals hold of one envelope.
struct Story<'a> {
    sheet: &'a Sheet,
    place: usize,
    tries: Vec<&'a Try>,
    posts: Vec<&'a Post>,
    stored: Option<(Duration, AckStatus)>,
}

impl Story<'_> {
    fn is_consented(&self, at: Duration) -> bool {
        self.sheet.withdrawn.is_none_or(|(gone, back)| at < gone || back.is_some_and(|back| back <= at))
    }

    /// What its provider knew at that time of what has become of it, if it did.
    fn fate_by(&self, at: Duration) -> Option<AckStatus> {
        let (after, fate) = self.sheet.fate;
        let taken = self.tries.iter().filter_map(|t| t.taken).min().filter(|_| self.sheet.is_mail())?;
        let (status, _) = fate.end().filter(|_| taken + after <= at)?;
        Some(status)
    }

    /// From when on it is pending and due, and until when.
    fn due_span(&self) -> (Duration, Duration) {
        let Sheet { added, not_before, withdrawn, expires, .. } = self.sheet;
        let back = withdrawn.and_then(|(_, back)| back).unwrap_or_default();
        let gone = withdrawn.filter(|(_, back)| back.is_none()).map(|(gone, _)| gone);
        let stored = self.stored.map(|(at, _)| at);
        let end = [*expires, gone, stored].into_iter().flatten().min().unwrap_or(Duration::MAX);
        ((*added).max(not_before.unwrap_or_default()).max(back), end)
    }
}

/// A journal, in the order that makes looking up cheap.
struct Case<'a> {
    played: &'a Played,
    stories: Vec<Story<'a>>,
    /// The pages that got through, by lane (mail first).
    pages: [Vec<&'a Poll>; 2],
    /// When the whole truth about accepted mails was told.
    told: Vec<Duration>,
    broken: Vec<Broken>,
}

/// Every rule that a history broke.
pub(super) fn judge(played: &Played) -> Vec<Broken> {
    let tries: Vec<Try> = played.world.carriers.iter().flat_map(|carrier| carrier.tries()).collect();
    let (posts, polls) = (played.world.outbox.posts(), played.world.outbox.polls());
    let newest = Question::Newest { after: None };
    let asked = played.world.carrier().questions();
    let told = asked.iter().filter(|it| it.truly && it.question == newest).map(|it| it.at).collect();
    let (stories, pages) = (stories(played, &tries, &posts), pages(&polls));
    let mut case = Case { played, stories, pages, told, broken: Vec::new() };
    if let Some(left) = &played.unfinished {
        case.say("all comes to its end, and leases return to zero", left.clone());
    }
    for story in std::mem::take(&mut case.stories) {
        case.once(&story);
        case.never_after_the_end(&story);
        case.one_status(&story);
        case.truth(&story);
        case.final_word(&story);
        case.time(&story);
        case.freshness(&story);
        case.stories.push(story);
    }
    case.order();
    case.gate(&tries);
    case.seam_gate(&tries, &posts);
    case.progress();
    case.junk();
    case.broken
}

fn stories<'a>(played: &'a Played, tries: &'a [Try], posts: &'a [Post]) -> Vec<Story<'a>> {
    let outbox = &played.world.outbox;
    let story = |sheet: &'a Sheet| Story {
        sheet,
        place: outbox.place(&sheet.id),
        tries: Vec::new(),
        posts: Vec::new(),
        stored: outbox.stored_at(&sheet.id).zip(outbox.status(&sheet.id)),
    };
    let mut stories: Vec<Story<'a>> = played.sheets.iter().map(story).collect();
    let index: HashMap<&str, usize> =
        played.sheets.iter().enumerate().map(|(n, sheet)| (sheet.id.as_str(), n)).collect();
    tries.iter().for_each(|t| stories[index[t.id.as_str()]].tries.push(t));
    for post in posts {
        if let Some(n) = index.get(post.id.as_str()) {
            stories[*n].posts.push(post);
        }
    }
    stories
}

/// Whether an ack failed for the seam's trouble.
fn failed(post: &Post) -> bool {
    matches!(&post.answered, Some((_, Err(error))) if !error.is_final())
}

fn pages(polls: &[Poll]) -> [Vec<&Poll>; 2] {
    ["email", "push"].map(|lane| polls.iter().filter(|p| p.answered.is_some() && p.channel == lane).collect())
}

fn outcome(t: &Try) -> Option<&Outcome> {
    t.ended.as_ref().map(|(_, attempt)| &attempt.outcome)
}

/// A refusal may be taken for the sender's settings, so it need not be the end.
fn is_the_end(t: &Try) -> bool {
    let attempt = t.ended.as_ref().map(|(_, attempt)| attempt);
    attempt.is_some_and(|a| {
        a.outcome.is_acceptance() || (a.outcome.ack_status().is_some() && a.cause != Cause::Refused)
    })
}

fn is_unclear(t: &Try) -> bool {
    t.ended.is_none() || matches!(outcome(t), Some(Outcome::Unclear { .. }))
}

impl<'a> Case<'a> {
    fn say(&mut self, rule: &'static str, what: String) {
        self.broken.push(Broken { rule, what });
    }

    fn accuse(&mut self, rule: &'static str, story: &Story<'_>, why: impl std::fmt::Debug) {
        let Story { sheet, tries, posts, stored, .. } = story;
        self.say(rule, format!("{why:?}: {sheet:?}\nstored {stored:?}\ntries {tries:#?}\nposts {posts:#?}"));
    }

    fn life(&self, at: Duration) -> &'a Life {
        let lives = &self.played.lives;
        &lives[lives.partition_point(|life| life.span.start <= at).saturating_sub(1)]
    }

    fn same_life(&self, a: Duration, b: Duration) -> bool {
        self.life(a).span == self.life(b).span
    }

    /// The reader gets a mail once. After a day a crash may have forgotten that it was sent at all.
    fn once(&mut self, story: &Story<'_>) {
        let taken: Vec<Duration> = story.tries.iter().filter_map(|t| t.taken).collect();
        let twice = taken.windows(2).any(|pair| self.same_life(pair[0], pair[1]));
        if story.sheet.is_mail() && twice {
            self.accuse("a mail is accepted once", story, taken);
        }
    }

    /// What has ended, or was acked, is not sent again by the same process.
    fn never_after_the_end(&mut self, story: &Story<'_>) {
        let ends =
            story.tries.iter().filter(|t| is_the_end(t)).filter_map(|t| t.ended.as_ref().map(|(at, _)| *at));
        let ends: Vec<Duration> = ends.chain(story.posts.iter().map(|post| post.at)).collect();
        let after = |t: &&Try| ends.iter().any(|end| *end < t.began && self.same_life(*end, t.began));
        if let Some(again) = story.tries.iter().copied().find(after) {
            self.accuse("nothing is sent after its end", story, again.began);
        }
    }

    fn one_status(&mut self, story: &Story<'_>) {
        let other =
            |pair: &[&Post]| pair[0].status != pair[1].status && self.same_life(pair[0].at, pair[1].at);
        if story.posts.windows(2).any(other) {
            self.accuse("a process acks with one status", story, ());
        }
        let fact = story.tries.iter().any(|t| matches!(outcome(t), Some(Outcome::Bounced)));
        let ends_consent = |post: &&Post| {
            let told = self.played.confirms && story.fate_by(post.at) == Some(post.status);
            !told && !matches!(post.status, AckStatus::Delivered | AckStatus::Failed)
        };
        if !fact && story.posts.iter().copied().any(|post| ends_consent(&post)) {
            self.accuse("nobody is unsubscribed by our fault", story, ());
        }
    }

    /// The status in force is what happened.
    fn truth(&mut self, story: &Story<'_>) {
        let rule = "the status in force is what happened";
        match story.stored {
            Some((at, status)) if self.played.confirms && story.fate_by(at) == Some(status) => {}
            Some((_, AckStatus::Delivered)) if !story.tries.iter().any(|t| t.is_accepted()) => {
                self.accuse(rule, story, "delivered, but never accepted");
            }
            Some((_, AckStatus::Bounced)) if story.sheet.nature != Nature::Gone => {
                self.accuse(rule, story, "bounced, but the recipient is there");
            }
            None | Some((_, AckStatus::Delivered | AckStatus::Bounced)) => {}
            Some((at, AckStatus::Failed)) => self.failure(story, at),
            Some((_, AckStatus::Complaint | AckStatus::Suppressed)) => self.accuse(rule, story, "invented"),
        }
    }

    /// What the provider tells of an accepted mail is what is acked, from then on and by the same process.
    fn final_word(&mut self, story: &Story<'_>) {
        if !self.played.confirms {
            return;
        }
        let told_wrong = self.told.iter().any(|told| {
            let Some(status) = story.fate_by(*told) else { return false };
            let accepted = story.tries.iter().filter(|t| t.is_accepted()).filter_map(|t| t.ended.as_ref());
            let waits = accepted.into_iter().any(|(at, _)| at < told && self.same_life(*at, *told));
            let mut posts = story.posts.iter().filter(|post| self.same_life(post.at, *told));
            let open = posts.clone().all(|post| post.at > *told);
            waits && open && posts.any(|post| post.status != status)
        });
        if told_wrong {
            self.accuse("the final word is what is acked", story, self.told.clone());
        }
    }

    /// An envelope is failed because it is refused, expires, or cannot be sent again without harm.
    fn failure(&mut self, story: &Story<'_>, at: Duration) {
        let tries: Vec<&&Try> = story.tries.iter().filter(|t| self.same_life(t.began, at)).collect();
        if tries.iter().any(|t| t.is_accepted()) {
            self.accuse("the status in force is what happened", story, "failed, but accepted");
        }
        let refused = story.tries.iter().any(|t| matches!(outcome(t), Some(Outcome::Failed)));
        let last = story.tries.last().and_then(|t| t.ended.as_ref());
        let asked = last.map_or(Duration::ZERO, |(_, attempt)| match attempt.outcome {
            Outcome::Retry { after } | Outcome::Unclear { after } => after.unwrap_or_default(),
            _ => Duration::ZERO,
        });
        let expired = story.sheet.expires.is_some_and(|expires| at + asked + CLOCK_SLACK >= expires);
        let unknown = story.sheet.is_mail()
            && tries.iter().any(|t| is_unclear(t) && t.began + UNCLEAR_LIMIT <= at + secs(15));
        if !refused && !expired && !unknown {
            self.accuse("what is consented and unexpired is delivered", story, "failed without a reason");
        }
    }

    /// Not before its time.
    fn time(&mut self, story: &Story<'_>) {
        let not_before = story.sheet.not_before.unwrap_or_default();
        if story.tries.iter().any(|t| t.began + CLOCK_SLACK < not_before) {
            self.accuse("nothing is sent before its time", story, not_before);
        }
    }

    fn pages_until(&self, story: &Story<'_>, at: Duration) -> impl Iterator<Item = &'a Poll> + use<'a, '_> {
        let pages = &self.pages[usize::from(!story.sheet.is_mail())];
        let start = self.life(at).span.start;
        let until = pages.partition_point(|page| page.answered.is_some_and(|answered| answered <= at));
        pages.iter().take(until).rev().copied().take_while(move |page| page.at >= start)
    }

    /// Sent is only what a fresh page lists and no later page has left out.
    fn freshness(&mut self, story: &Story<'_>) {
        for t in &story.tries {
            let freshness = self.life(t.began).freshness;
            let mut listed = false;
            for page in self.pages_until(story, t.began) {
                let answered = page.answered.unwrap_or_default();
                if page.places.contains(&story.place) {
                    listed = t.began - answered < freshness;
                    break;
                }
                if page.listed < usize::from(page.limit) && answered < t.began {
                    break;
                }
            }
            if !listed {
                self.accuse("nothing is sent that the seam has stopped listing", story, t.began);
            }
            let known = story.sheet.withdrawn.map(|(gone, _)| gone + STALE_AT_MOST + freshness);
            if !story.is_consented(t.began) && known.is_some_and(|known| t.began > known) {
                self.accuse("withdrawn consent wins", story, t.began);
            }
        }
    }

    /// Within a record the older goes first.
    fn order(&mut self) {
        let stories = std::mem::take(&mut self.stories);
        let mut records: HashMap<_, Vec<&Story<'_>>> = HashMap::new();
        for story in &stories {
            let family = story.sheet.template.rsplit_once(".v").map(|(family, _)| family);
            records.entry((story.sheet.is_mail(), &story.sheet.to, family)).or_default().push(story);
        }
        for members in records.values() {
            for (older, younger) in pairs(members) {
                if let Some(at) = self.overtakes(older, younger) {
                    self.accuse(
                        "within a record the older goes first",
                        younger,
                        (at, older.sheet, &older.tries, &older.posts),
                    );
                }
            }
        }
        self.stories = stories;
    }

    fn overtakes(&self, older: &Story<'_>, younger: &Story<'_>) -> Option<Duration> {
        let stands_in_front = |at: Duration| {
            let accepted = older.tries.iter().any(|t| {
                t.is_accepted()
                    && t.ended.as_ref().is_some_and(|(end, _)| *end <= at && self.same_life(*end, at))
            });
            let acked = older.posts.iter().any(|post| {
                let through = |(when, answer): &(Duration, Result<_, crate::outbox::SeamError>)| {
                    *when <= at && answer.as_ref().err().is_none_or(|error| error.is_final())
                };
                self.same_life(post.at, at) && post.answered.as_ref().is_some_and(through)
            });
            let settled = older.stored.is_some_and(|(stored, _)| stored <= at);
            // A clock that is wrong may take what is due for what is not.
            let due =
                older.sheet.not_before.is_none_or(|due| due + CLOCK_SLACK <= at && at > self.played.clears);
            due && !accepted && !acked && !settled && self.is_listed_before(older, younger, at)
        };
        younger.tries.iter().map(|t| t.began).find(|began| stands_in_front(*began))
    }

    /// Whether the last page that lists the younger lists the older too. What arrives at the very instant
    /// may be known already or not.
    fn is_listed_before(&self, older: &Story<'_>, younger: &Story<'_>, at: Duration) -> bool {
        let mut listed = false;
        for page in self.pages_until(younger, at).filter(|page| page.places.contains(&younger.place)) {
            listed = page.places.contains(&older.place);
            if !listed || page.answered.is_some_and(|answered| answered < at) {
                break;
            }
        }
        listed
    }

    /// What has closed at once stays closed until its first probe, whatever else comes in.
    fn gate(&mut self, tries: &[Try]) {
        let mails: Vec<&Try> = tries.iter().filter(|t| t.gate == "resend").collect();
        for closing in &mails {
            let Some((closed, attempt)) = &closing.ended else { continue };
            let closes = matches!(attempt.outcome, Outcome::Pause { scope: Scope::Provider, .. });
            if !closes || matches!(attempt.cause, Cause::RateLimited | Cause::QuotaDaily) {
                continue;
            }
            let bad_between = mails.iter().any(|t| {
                let ended = t.ended.as_ref().filter(|_| !t.is_accepted()).map(|(at, _)| *at);
                !std::ptr::eq(*t, *closing) && ended.is_some_and(|at| closing.began <= at && at <= *closed)
            });
            let early = |t: &&&Try| {
                let probed = self.played.probed.iter().any(|at| closed <= at && *at <= t.began);
                *closed < t.began
                    && t.began < *closed + FIRST_PROBE
                    && !probed
                    && self.same_life(*closed, t.began)
            };
            if let Some(early) = mails.iter().find(early).filter(|_| !bad_between) {
                self.say("only a probe moves a closed gate", format!("{closing:#?}\n{early:#?}"));
                return;
            }
        }
    }

    /// While acks of three fail and none gets through, nothing is sent.
    fn seam_gate(&mut self, tries: &[Try], posts: &[Post]) {
        let mut answers: Vec<(Duration, bool, &Post)> = posts
            .iter()
            .filter_map(|post| post.answered.as_ref().map(|(at, _)| (*at, failed(post), post)))
            .collect();
        // Of answers at one instant the failures come first: what got through opens.
        answers.sort_by_key(|(at, failed, _)| (*at, !failed));
        let mut failing: HashMap<&str, Duration> = HashMap::new();
        for (n, (at, failed, post)) in answers.iter().enumerate() {
            failing.retain(|_, since| *failed && self.same_life(*since, *at));
            if *failed {
                failing.insert(&post.id, *at);
            }
            if failing.len() < 3 {
                continue;
            }
            let next = answers.get(n + 1).map_or(self.played.ended, |(next, ..)| *next);
            let sent = |t: &&Try| *at < t.began && t.began < next && self.same_life(*at, t.began);
            if let Some(sent) = tries.iter().find(sent) {
                self.say("nothing is sent while acks do not get through", format!("{failing:?}\n{sent:#?}"));
                return;
            }
        }
    }

    /// After the faults no lane sits still over something due for longer than the longest wait.
    fn progress(&mut self) {
        let longest = LONGEST_WAIT.max(self.played.longest_asked).mul_f64(1.25) + WAIT_SLACK;
        for is_mail in [true, false] {
            let lane = || self.stories.iter().filter(|story| story.sheet.is_mail() == is_mail);
            let tries = lane().flat_map(|story| story.tries.iter().map(|t| t.began));
            let mut moves: Vec<Duration> =
                tries.chain(lane().flat_map(|s| s.posts.iter().map(|p| p.at))).collect();
            moves.retain(|at| *at > self.played.clears);
            moves.extend([self.played.clears, self.played.ended]);
            moves.sort_unstable();
            let stuck = moves.windows(2).filter(|pair| pair[1] - pair[0] > longest).find_map(|pair| {
                lane().find(|story| {
                    let (from, to) = story.due_span();
                    from.max(pair[0]) + longest < to.min(pair[1])
                })
            });
            if let Some(story) = stuck {
                let what = format!("{:?} {:?}", story.sheet, story.due_span());
                self.say("every lane makes progress", what);
            }
        }
    }

    fn junk(&mut self) {
        let outbox = &self.played.world.outbox;
        for (id, expected) in JUNK {
            let was_written = outbox.has(id);
            let wrong = was_written
                && (outbox.status(id) != expected || expected.is_none() && !outbox.posts_of(id).is_empty());
            if wrong {
                self.say("junk is failed or left alone", format!("{id}: {:?}", outbox.status(id)));
            }
        }
    }
}

fn pairs<'a, 'b>(members: &'b [&'a Story<'a>]) -> impl Iterator<Item = (&'a Story<'a>, &'a Story<'a>)> + 'b {
    members.iter().flat_map(move |a| members.iter().filter(|b| a.place < b.place).map(|b| (*a, *b)))
}
