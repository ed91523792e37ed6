//! `man`: the manual pages, made from the same tree and list that parse the command line and the environment.
//!
//! Owns what a manual page has beside them: signals, files and examples. Packaging calls it; it is not shown in
//! the help.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Cli;
use crate::config::variables;

/// Writes the manual pages.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Where the pages are written: made if it is not there
    pub directory: PathBuf,
}

/// The day of the last change to what the pages tell. It is written here, so that one source makes the same bytes on any day.
const EDITED: &str = "2026-12-01";

const SIGNALS: [(&str, &str); 3] = [
    (
        "SIGTERM, SIGINT",
        "The first stops new work, finishes what is on its way within DELIVERY_SHUTDOWN_GRACE and says what is \
         left.",
    ),
    ("SIGTERM again", "Ends at once."),
    ("SIGHUP", "Reads the templates anew, all or nothing, and lets each closed gate try at once."),
];

const FILES: [(&str, &str); 3] = [
    ("/etc/delivery-worker/delivery-worker.env", "Settings that are not secret, as the unit reads them."),
    ("/etc/delivery-worker/secrets.sops.env", "Secrets, encrypted, where the drop-in for sops is installed."),
    ("DELIVERY_TEMPLATES_DIR", "Templates that add to the built-in ones and override them file by file."),
];

const EXAMPLES: [(&str, &str); 3] = [
    ("delivery-worker demo", "Shows the whole thing at work, without any configuration."),
    (
        "APP_ORIGIN=https://app.example.com delivery-worker render envelope.json --format html",
        "Prints what one envelope becomes.",
    ),
    ("curl -i http://127.0.0.1:9110/readyz", "Asks a running worker whether it delivers, and if not why."),
];

/// Writes a page for the program and one for each of its commands into `args.directory`.
///
/// # Errors
/// The directory or a page cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let directory = &args.directory;
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    for (name, page) in pages().context("making the pages")? {
        let file = directory.join(name);
        fs::write(&file, page).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// The files' names with their content.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    // The environment and the exit codes have sections of their own here.
    let mut cli = Cli::command().after_long_help("").disable_help_subcommand(true);
    cli.build();
    let mut all = vec![program(&cli)?];
    visible(&cli).try_for_each(|command| collect(command, &mut all))?;
    Ok(all)
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn collect(command: &Command, all: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let mut page = Vec::new();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    man(command).title(name.clone()).render(&mut page)?;
    all.push((format!("{name}.1"), page));
    visible(command).try_for_each(|command| collect(command, all))
}

fn man(command: &Command) -> Man {
    Man::new(command.clone()).date(EDITED).source(concat!("delivery-worker ", env!("CARGO_PKG_VERSION")))
}

fn program(cli: &Command) -> io::Result<(String, Vec<u8>)> {
    let man = man(cli);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let variables = variables::ALL.iter().map(|variable| {
        let mark = if variable.secret { ", secret, or as a file by the same name and _FILE" } else { "" };
        (variable.name, format!("{} [{}{mark}]", variable.help, variable.default))
    });
    section("ENVIRONMENT", variables).to_writer(&mut page)?;
    let exits = super::EXITS.map(|(exit, what)| (exit.code().to_string(), what.to_owned()));
    section("EXIT STATUS", exits).to_writer(&mut page)?;
    for (title, entries) in [("SIGNALS", SIGNALS), ("FILES", FILES), ("EXAMPLES", EXAMPLES)] {
        section(title, entries.map(|(name, what)| (name, what.to_owned()))).to_writer(&mut page)?;
    }
    man.render_version_section(&mut page)?;
    Ok(("delivery-worker.1".to_owned(), page))
}

fn section<T: Into<String>>(title: &str, entries: impl IntoIterator<Item = (T, String)>) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (name, what) in entries {
        roff.control("TP", []);
        roff.text([bold(name.into())]);
        roff.text([roman(what)]);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let all = pages().unwrap();
        let (_, page) =
            all.iter().find(|(file, _)| file == name).unwrap_or_else(|| panic!("{name} is missing"));
        // A hyphen is escaped in roff.
        String::from_utf8(page.clone()).unwrap().replace("\\-", "-")
    }

    #[test]
    fn the_programs_page_names_every_command_variable_and_exit_code() {
        let page = page("delivery-worker.1");
        let cli = Cli::command();
        for command in visible(&cli) {
            assert!(page.contains(&format!("delivery-worker-{}(1)", command.get_name())), "{page}");
        }
        for variable in variables::ALL {
            assert!(page.contains(variable.name), "{}", variable.name);
        }
        for section in ["ENVIRONMENT", "EXIT STATUS", "SIGNALS", "FILES", "EXAMPLES"] {
            assert!(
                page.contains(&format!(".SH {section}")) || page.contains(&format!(".SH \"{section}\"")),
                "{section}"
            );
        }
        assert!(page.contains("78") && page.contains(&format!(".TH delivery-worker 1 {EDITED}")), "{page}");
    }

    #[test]
    fn each_command_has_a_page_with_its_options_and_hidden_ones_have_none() {
        assert!(page("delivery-worker-render.1").contains("--watch"));
        assert!(page("delivery-worker-demo.1").contains("--once"));
        assert!(pages().unwrap().iter().all(|(name, _)| name != "delivery-worker-man.1"));
    }

    #[test]
    fn pages_are_written_into_a_directory_that_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("man1");
        run(&ManArgs { directory: directory.clone() }).unwrap();
        assert!(directory.join("delivery-worker.1").is_file());
    }
}
