//! Whether the systemd unit, as this machine has it, leaves the worker what it needs.
//!
//! Owns the reading of `systemctl show`, which tells a unit with all its drop-ins, before it is started and
//! without root (<https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html>).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::report::Line;

const TOPIC: &str = "unit";
const UNIT: &str = "delivery-worker.service";
/// Each send and each poll holds a socket, and every origin of a push service keeps a few more.
const FILES: u64 = 512;
const PROPERTIES: [&str; 10] = [
    "LoadState",
    "RestrictAddressFamilies",
    "PrivateNetwork",
    "IPAddressDeny",
    "IPAddressAllow",
    "LimitNOFILESoft",
    "TimeoutStopUSec",
    "ProtectHome",
    "PrivateTmp",
    "DynamicUser",
];

/// What of the configuration the unit must leave room for.
#[derive(Debug, Clone)]
pub(super) struct Needs {
    /// DELIVERY_SHUTDOWN_GRACE.
    pub(super) grace: Duration,
    /// DELIVERY_TEMPLATES_DIR.
    pub(super) templates: Option<PathBuf>,
}

/// Asks systemd for the unit. Waits for it, so not to be called where others wait for the thread.
pub(super) fn check(needs: &Needs) -> Vec<Line> {
    let asked = Command::new("systemctl").args(["show", UNIT, "--property", &PROPERTIES.join(",")]).output();
    match asked {
        Ok(answer) if answer.status.success() => judge(&String::from_utf8_lossy(&answer.stdout), needs),
        _ => vec![Line::skip(TOPIC, "systemd does not run here, so that no unit of it can be looked at")],
    }
}

fn judge(shown: &str, needs: &Needs) -> Vec<Line> {
    let properties: BTreeMap<&str, &str> = shown.lines().filter_map(|line| line.split_once('=')).collect();
    let unit = Unit(properties);
    match unit.of("LoadState") {
        "loaded" => {}
        "not-found" | "" => {
            return vec![Line::skip(TOPIC, format!("{UNIT} is not installed on this machine"))];
        }
        state => {
            let what = format!("systemd does not take {UNIT}: {state}");
            return vec![Line::fail(TOPIC, what, format!("systemctl status {UNIT} says why"))];
        }
    }
    let found: Vec<Line> = [unit.network(), unit.files(), unit.stop(needs.grace)]
        .into_iter()
        .flatten()
        .chain(needs.templates.as_deref().and_then(|directory| unit.templates(directory)))
        .collect();
    match found.is_empty() {
        true => vec![Line::ok(TOPIC, format!("{UNIT} leaves the worker network, files and time to stop"))],
        false => found,
    }
}

/// A unit's properties as systemd tells them. One that an older systemd does not know is empty.
struct Unit<'a>(BTreeMap<&'a str, &'a str>);

impl Unit<'_> {
    fn of(&self, property: &str) -> &str {
        self.0.get(property).copied().unwrap_or_default()
    }

    fn network(&self) -> Option<Line> {
        let (families, denied) = (self.of("RestrictAddressFamilies"), self.of("IPAddressDeny"));
        let listed: Vec<&str> = families.trim_start_matches('~').split_whitespace().collect();
        let lets = |family: &&&str| listed.contains(family) != families.starts_with('~') || listed.is_empty();
        let shut = ["AF_INET", "AF_INET6", "AF_UNIX"].iter().find(|family| !lets(family));
        if self.of("PrivateNetwork") == "yes" {
            return Some(Line::fail(
                TOPIC,
                "PrivateNetwork=yes keeps the worker off every network",
                "set it to no",
            ));
        }
        if let Some(family) = shut {
            let what = format!("RestrictAddressFamilies does not let the worker use {family}");
            return Some(Line::fail(TOPIC, what, "let it have AF_INET, AF_INET6, AF_UNIX and AF_NETLINK"));
        }
        let all = denied.contains("0.0.0.0/0") || denied.contains("::/0");
        all.then(|| {
            let what = "IPAddressDeny shuts out whatever IPAddressAllow does not name";
            Line::warn(TOPIC, what, "see that the seam, Resend and every push service are let through")
        })
    }

    fn files(&self) -> Option<Line> {
        let limit: u64 = self.of("LimitNOFILESoft").parse().ok()?;
        (limit < FILES).then(|| {
            let what = format!("LimitNOFILE lets the worker open {limit} files and sockets");
            Line::warn(TOPIC, what, format!("raise it to {FILES} or more: each message on its way needs one"))
        })
    }

    fn stop(&self, grace: Duration) -> Option<Line> {
        let timeout = humantime::parse_duration(self.of("TimeoutStopUSec")).ok()?;
        (timeout <= grace).then(|| {
            let what = format!(
                "systemd kills the worker after {}, and it takes up to {} to stop",
                humantime::format_duration(timeout),
                humantime::format_duration(grace)
            );
            Line::fail(TOPIC, what, "make TimeoutStopSec longer than DELIVERY_SHUTDOWN_GRACE")
        })
    }

    fn templates(&self, directory: &Path) -> Option<Line> {
        let below = |roots: &[&str]| roots.iter().any(|root| directory.starts_with(root));
        let home = !matches!(self.of("ProtectHome"), "no" | "") && below(&["/home", "/root", "/run/user"]);
        let temporary = self.of("PrivateTmp") != "no" && below(&["/tmp", "/var/tmp"]);
        let hidden = if home { Some("ProtectHome") } else { temporary.then_some("PrivateTmp") };
        if let Some(setting) = hidden {
            let what = format!("{setting} hides DELIVERY_TEMPLATES_DIR from the worker");
            return Some(Line::fail(
                TOPIC,
                what,
                "keep the templates elsewhere, such as /etc/delivery-worker/templates",
            ));
        }
        let mode = fs::metadata(directory).ok()?.permissions().mode();
        (self.of("DynamicUser") == "yes" && mode & 0o005 != 0o005).then(|| {
            let what = "the worker's user, which owns no file, may not read DELIVERY_TEMPLATES_DIR";
            Line::fail(TOPIC, what, "chmod -R o+rX the directory")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    const SHIPPED: &str = "LoadState=loaded\nRestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX\nPrivateNetwork=no\n\
                           IPAddressDeny=\nIPAddressAllow=\nLimitNOFILESoft=1024\nTimeoutStopUSec=35s\nProtectHome=yes\n\
                           PrivateTmp=yes\nDynamicUser=yes\n";

    fn judged(change: (&str, &str), templates: Option<&Path>) -> Line {
        let shown = SHIPPED.replace(change.0, change.1);
        assert!(change.0.is_empty() || shown != SHIPPED, "{change:?} changes nothing");
        let needs = Needs { grace: Duration::from_secs(25), templates: templates.map(Path::to_owned) };
        let mut lines = judge(&shown, &needs);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines.remove(0)
    }

    #[test]
    fn the_shipped_unit_is_good_and_each_drop_in_that_takes_too_much_is_told() {
        for (change, level, word) in [
            (("", ""), Level::Ok, "leaves the worker"),
            (("LoadState=loaded", "LoadState=not-found"), Level::Skip, "not installed"),
            (("LoadState=loaded", "LoadState=bad-setting"), Level::Fail, "bad-setting"),
            (("PrivateNetwork=no", "PrivateNetwork=yes"), Level::Fail, "PrivateNetwork"),
            (("AF_INET AF_INET6", "AF_INET6"), Level::Fail, "AF_INET"),
            (("AF_INET AF_INET6 AF_NETLINK AF_UNIX", ""), Level::Ok, "leaves"),
            (("=AF_INET AF_INET6 AF_NETLINK AF_UNIX", "=~AF_PACKET"), Level::Ok, "leaves"),
            (("=AF_INET AF_INET6 AF_NETLINK AF_UNIX", "=~AF_UNIX"), Level::Fail, "AF_UNIX"),
            (("IPAddressDeny=", "IPAddressDeny=::/0 0.0.0.0/0"), Level::Warn, "IPAddressDeny"),
            (("Soft=1024", "Soft=64"), Level::Warn, "64 files"),
            (("Soft=1024", "Soft=infinity"), Level::Ok, "leaves"),
            (("35s", "20s"), Level::Fail, "after 20s"),
            (("35s", "1min 30s"), Level::Ok, "leaves"),
            (("35s", "infinity"), Level::Ok, "leaves"),
        ] {
            let line = judged(change, None);
            assert_eq!(line.level, level, "{change:?}: {line:?}");
            assert!(line.what.contains(word), "{change:?}: {line:?}");
        }
    }

    #[test]
    fn templates_that_the_unit_hides_are_told() {
        for (place, word) in [("/home/ann/templates", "ProtectHome"), ("/tmp/templates", "PrivateTmp")] {
            let line = judged(("", ""), Some(Path::new(place)));
            assert!(line.level == Level::Fail && line.what.contains(word), "{line:?}");
        }
        let directory = tempfile::tempdir().unwrap();
        let open = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        open(0o700);
        let line = judged(("PrivateTmp=yes", "PrivateTmp=no"), Some(directory.path()));
        assert!(line.level == Level::Fail && line.what.contains("may not read"), "{line:?}");
        open(0o755);
        assert_eq!(judged(("PrivateTmp=yes", "PrivateTmp=no"), Some(directory.path())).level, Level::Ok);
    }
}
