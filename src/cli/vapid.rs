//! `delivery-worker vapid`: makes a key pair for push, or shows the public half of the one in use.
//!
//! The private half is printed once, by `generate`, and nowhere else. It must not start anything.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use secrecy::{ExposeSecret, SecretString};

use crate::channel::push::VapidKey;

/// The variable that holds the key, or, with `_FILE` behind it, the path of its file.
const VARIABLE: &str = "VAPID_PRIVATE_KEY";
const FILE_VARIABLE: &str = "VAPID_PRIVATE_KEY_FILE";

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

/// Runs the command; `env` looks up a variable, `out` is standard output.
///
/// # Errors
/// The key is not configured or cannot be read; the variable is named, its value never shown.
pub fn run(
    args: &VapidArgs,
    env: impl Fn(&str) -> Option<String>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    match args.command {
        VapidCommand::Generate => {
            let key = VapidKey::generate()?;
            writeln!(out, "# For the worker. A secret: keep it with the others, and keep it, since every")?;
            writeln!(out, "# subscription is bound to it and is lost with it.")?;
            writeln!(out, "{VARIABLE}={}", key.private_base64url().expose_secret())?;
            writeln!(
                out,
                "# For the app: what its page gives to pushManager.subscribe as applicationServerKey."
            )?;
            writeln!(out, "VAPID_PUBLIC_KEY={}", key.public_base64url())?;
        }
        VapidCommand::Public => writeln!(out, "{}", configured(env)?.public_base64url())?,
    }
    Ok(())
}

fn configured(env: impl Fn(&str) -> Option<String>) -> anyhow::Result<VapidKey> {
    let set = |name| env(name).filter(|value| !value.trim().is_empty());
    let (variable, text) = match (set(VARIABLE), set(FILE_VARIABLE)) {
        (Some(_), Some(_)) => bail!("{VARIABLE} and {FILE_VARIABLE} are both set; unset one of them"),
        (Some(text), None) => (VARIABLE, text),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path.trim())
                .with_context(|| format!("{FILE_VARIABLE} names a file that cannot be read"))?;
            (FILE_VARIABLE, text)
        }
        (None, None) => {
            bail!("{VARIABLE} is not set; `delivery-worker vapid generate` makes a key pair")
        }
    };
    VapidKey::parse(&SecretString::from(text)).with_context(|| variable.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(command: VapidCommand, env: &[(&str, &str)]) -> anyhow::Result<String> {
        let lookup =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let mut out = Vec::new();
        run(&VapidArgs { command }, lookup, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    fn public(env: &[(&str, &str)]) -> Result<String, String> {
        run_with(VapidCommand::Public, env).map_err(|error| format!("{error:#}"))
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
            (vec![("VAPID_PRIVATE_KEY", private.as_str()), ("VAPID_PRIVATE_KEY_FILE", "/x")], "both set"),
            (vec![("VAPID_PRIVATE_KEY_FILE", "/no/such/file")], "VAPID_PRIVATE_KEY_FILE names a file"),
            (vec![("VAPID_PRIVATE_KEY", public_half.as_str())], "VAPID_PRIVATE_KEY: holds the public half"),
        ] {
            let error = public(&env).unwrap_err();
            assert!(error.contains(variable), "{error}");
            assert!(!error.contains(&private) && !error.contains(&public_half));
        }
    }
}
