//! What systemd is told (sd_notify(3)): that the worker is up, what it is doing, and that it lives.
//!
//! Owns the messages and their words. Where nobody listens, which is where NOTIFY_SOCKET is not set, it does
//! nothing. It must not decide whether the worker lives: the engine says so.

use std::convert::Infallible;
use std::time::Duration;

use sd_notify::NotifyState;

use super::status::{Status, StatusSource, Unready};

/// Between two looks at what is to be told.
const LOOK: Duration = Duration::from_secs(5);

/// Says that the worker is up, and from then on what it is doing; and that it lives, as often as the unit's
/// WatchdogSec= asks for and only while its loops make progress.
pub async fn follow(source: &dyn StatusSource) -> Infallible {
    if !listens() {
        return std::future::pending().await;
    }
    let watchdog = sd_notify::watchdog_enabled();
    // Half of the time is what sd_watchdog_enabled(3) counsels; a third leaves room for a busy machine.
    let look = watchdog.map_or(LOOK, |bound| LOOK.min(bound / 3));
    let mut said = String::new();
    tell(&[NotifyState::Ready]);
    loop {
        let status = source.status();
        if status.alive && watchdog.is_some() {
            tell(&[NotifyState::Watchdog]);
        }
        let line = line(&status);
        if line != said {
            tell(&[NotifyState::Status(&line)]);
            said = line;
        }
        tokio::time::sleep(look).await;
    }
}

/// Says that the worker reads its files anew, until the guard is dropped.
pub fn reloading() -> Reloading {
    // What Type=notify-reload wants beside it; without a clock that can be read there is no such unit either.
    if listens() {
        let since = NotifyState::monotonic_usec_now().ok();
        tell(&[NotifyState::Reloading].into_iter().chain(since).collect::<Vec<_>>());
    }
    Reloading(())
}

/// The files are being read anew.
#[must_use]
pub struct Reloading(());

impl Drop for Reloading {
    fn drop(&mut self) {
        tell(&[NotifyState::Ready]);
    }
}

/// Says that the worker stops.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn listens() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

fn tell(news: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(news) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

/// What `systemctl status` shows.
fn line(status: &Status) -> String {
    let mut parts = vec![headline(status).to_owned()];
    // Stopping is the headline already.
    let reasons = status.unready.iter().filter(|reason| **reason != Unready::Stopping);
    parts.extend(reasons.map(ToString::to_string));
    parts.extend(status.lanes.iter().filter_map(super::status::LaneStatus::held));
    parts.join("; ")
}

fn headline(status: &Status) -> &'static str {
    if !status.alive {
        return "a loop hangs";
    }
    if status.unready.contains(&Unready::Stopping) {
        return "stopping";
    }
    match status.unready.iter().any(Unready::blocks) {
        true => "kept from delivering",
        false => "delivering",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::envelope::ChannelName;
    use crate::outcome::Cause;
    use crate::telemetry::status::{LaneStatus, LeaseState};

    fn status(unready: Vec<Unready>) -> Status {
        let lane = |name: &str, leases: &[(LeaseState, usize)]| LaneStatus {
            channel: ChannelName::new(name),
            leases: leases.iter().copied().collect::<BTreeMap<_, _>>(),
            window_used: 0,
            window_size: 500,
            gates: Vec::new(),
            backlog_age: Duration::ZERO,
            last_page: None,
        };
        let email = lane("email", &[(LeaseState::Waiting, 3), (LeaseState::Sending, 1)]);
        Status { lanes: vec![email, lane("push", &[(LeaseState::Ready, 0)])], alive: true, unready }
    }

    #[test]
    fn the_line_says_what_it_does_and_what_it_holds() {
        assert_eq!(line(&status(vec![])), "delivering; email: 1 sending, 3 waiting");
    }

    #[test]
    fn the_line_says_why_it_does_not_deliver() {
        let gate = Unready::GateClosed { label: "resend", cause: Cause::ApiKey };
        let told = line(&status(vec![gate.clone()]));
        assert_eq!(told, format!("kept from delivering; {gate}; email: 1 sending, 3 waiting"));
        let told = line(&status(vec![Unready::Stopping]));
        assert_eq!(told, "stopping; email: 1 sending, 3 waiting");
        let told = line(&status(vec![Unready::ClockSkew { seconds: 90 }]));
        assert!(told.starts_with("delivering; this machine's clock is 90 s ahead"), "{told}");
        let hung = Status { alive: false, ..status(vec![]) };
        assert!(line(&hung).starts_with("a loop hangs"));
    }
}
