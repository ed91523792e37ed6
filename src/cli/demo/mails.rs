//! Where the demo leaves its mails, as files to open.
//!
//! Owns the directory and the names in it. It must not know who made a mail.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::sandbox::journal::ReceivedMail;

/// A directory of mails, two files each.
pub(super) struct Mails(PathBuf);

impl Mails {
    /// Takes `directory`, made if it is not there; `None` makes a fresh one among the temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn open(directory: Option<PathBuf>) -> anyhow::Result<Mails> {
        let (directory, made) = match directory {
            Some(directory) => {
                let made = fs::create_dir_all(&directory);
                (directory, made)
            }
            None => {
                let name = format!("delivery-worker-demo-{:08x}", fastrand::u32(..));
                let directory = std::env::temp_dir().join(name);
                // Not create_dir_all: a directory that is there already may be somebody else's.
                let made = fs::create_dir(&directory);
                (directory, made)
            }
        };
        made.with_context(|| format!("{} cannot be made for the mails", directory.display()))?;
        Ok(Mails(directory))
    }

    /// The directory.
    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    /// Leaves both parts of a mail under `name`; returns the path of the HTML part.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn keep(&self, name: &str, mail: &ReceivedMail) -> anyhow::Result<PathBuf> {
        let html = self.0.join(format!("{name}.html"));
        let text = self.0.join(format!("{name}.txt"));
        for (path, part) in [(&html, &mail.html), (&text, &mail.text)] {
            fs::write(path, part).with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(html)
    }
}
