//! The environment as a value, so that nothing but the start of the program looks at the process's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use super::variables;

/// The variables that concern the worker. They hold secrets: `Debug` shows names alone.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

/// Variables with this prefix are ours, whether this build reads them or not.
pub(super) const PREFIX: &str = "DELIVERY_";
/// The other beginnings of our names, which other programs' names may have too.
const FAMILIES: [&str; 5] = ["MAIL_", "OUTBOX_", "PUSH_", "RESEND_", "VAPID_"];

impl Environment {
    /// What the process was started with.
    pub fn of_process() -> Environment {
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// The value of `name`; an empty one reads as not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    /// The names that begin as ours do and are not read by this build.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| !variables::is_read(name))
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Environment {
        let begins =
            |name: &str| name.starts_with(PREFIX) || FAMILIES.iter().any(|family| name.starts_with(family));
        let ours = |name: &str| begins(name) || variables::is_read(name);
        let pairs = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Environment(pairs.filter(|(name, _)| ours(name)).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
