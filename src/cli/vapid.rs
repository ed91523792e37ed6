//! `delivery-worker vapid`: makes a key pair for push, or shows the public half of the one in use.
//!
//! The private half is printed once, by `generate`, and nowhere else. It must not start anything.

use std::io::Write;

use anyhow::Context;
use clap::{Args, Subcommand};
use secrecy::ExposeSecret;

use super::Failure;
use crate::channel::push::VapidKey;
use crate::config::{self, Environment, variables};

/// Make a VAPID key pair, or print the public half of the one that is configured.
#[derive(Debug, Args)]
pub struct VapidArgs {
    #[command(subcommand)]
    command: VapidCommand,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum VapidCommand {
    /// Print a new key pair, as lines for the environment of the worker and the app.
    Generate,
    /// Print the public half of VAPID_PRIVATE_KEY (or of the file in VAPID_PRIVATE_KEY_FILE).
    Public,
}

/// Runs the command in the environment `env`; `out` is standard output.
///
/// # Errors
/// The key is not configured or cannot be read; the variable is named, its value never shown.
pub fn run(args: &VapidArgs, env: &Environment, out: &mut impl Write) -> Result<(), Failure> {
    let lines = match args.command {
        VapidCommand::Generate => pair(&VapidKey::generate().map_err(anyhow::Error::from)?),
        VapidCommand::Public => config::vapid_key(env)?.public_base64url().to_owned(),
    };
    Ok(writeln!(out, "{lines}").context("writing the key")?)
}

fn pair(key: &VapidKey) -> String {
    format!(
        "# For the worker. A secret: keep it with the others, and keep it, since every\n\
         # subscription is bound to it and is lost with it.\n\
         {}={}\n\
         # For the app: what its page gives to pushManager.subscribe as applicationServerKey.\n\
         VAPID_PUBLIC_KEY={}",
        variables::VAPID_PRIVATE_KEY.name,
        key.private_base64url().expose_secret(),
        key.public_base64url()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(command: VapidCommand, env: &[(&str, &str)]) -> Result<String, Failure> {
        let mut out = Vec::new();
        run(&VapidArgs { command }, &env.iter().copied().collect(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn public(env: &[(&str, &str)]) -> Result<String, String> {
        run_with(VapidCommand::Public, env).map_err(|failure| match failure {
            Failure::Configuration(problems) => problems.join("\n"),
            Failure::Other(error) => panic!("{error:#}"),
        })
    }

    fn generated() -> (String, String) {
        let lines = run_with(VapidCommand::Generate, &[]).unwrap();
        let value = |name: &str| lines.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        (value("VAPID_PRIVATE_KEY="), value("VAPID_PUBLIC_KEY="))
    }

    #[test]
    fn what_is_generated_can_be_pasted_and_its_public_half_is_shown_again() {
        let (private, public_half) = generated();
        assert_eq!(public(&[("VAPID_PRIVATE_KEY", &private)]).unwrap(), format!("{public_half}\n"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{private}\n")).unwrap();
        let path = file.path().to_str().unwrap();
        let env = [("VAPID_PRIVATE_KEY_FILE", path), ("VAPID_PRIVATE_KEY", "")];
        assert_eq!(public(&env).unwrap(), format!("{public_half}\n"), "empty is unset");
    }

    #[test]
    fn a_missing_double_or_unreadable_key_names_the_variable_and_not_the_value() {
        let (private, public_half) = generated();
        for (env, variable) in [
            (vec![], "VAPID_PRIVATE_KEY is not set"),
            (
                vec![("VAPID_PRIVATE_KEY", private.as_str()), ("VAPID_PRIVATE_KEY_FILE", "/x")],
                "set one of them",
            ),
            (
                vec![("VAPID_PRIVATE_KEY_FILE", "/no/such/file")],
                "VAPID_PRIVATE_KEY cannot be read from the file",
            ),
            (vec![("VAPID_PRIVATE_KEY", public_half.as_str())], "VAPID_PRIVATE_KEY holds the public half"),
        ] {
            let error = public(&env).unwrap_err();
            assert!(error.contains(variable), "{error}");
            assert!(!error.contains(&private) && !error.contains(&public_half));
        }
    }
}
