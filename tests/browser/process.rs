//! The programs that a test starts: they end with it, and their lines can be waited for.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Longer than anything takes on a slow machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

/// A program, running.
pub(crate) struct Process {
    child: Child,
    lines: watch::Sender<Vec<String>>,
}

impl Process {
    /// Starts `program` with `env` added to this process's environment.
    pub(crate) fn start(program: &OsStr, arguments: &[&str], env: &[(String, String)]) -> Process {
        let mut child = Command::new(program)
            .args(arguments)
            .envs(env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        let lines = watch::Sender::default();
        read(child.stdout.take().unwrap(), lines.clone());
        read(child.stderr.take().unwrap(), lines.clone());
        Process { child, lines }
    }

    /// The worker's binary: the one that WORKER_UNDER_TEST names, else the one that cargo has just built.
    pub(crate) fn worker(arguments: &[&str], env: &[(String, String)]) -> Process {
        let named = std::env::var_os("WORKER_UNDER_TEST").filter(|path| !path.is_empty());
        let binary = named.unwrap_or_else(|| OsString::from(env!("CARGO_BIN_EXE_delivery-worker")));
        Process::start(&binary, arguments, env)
    }

    /// Waits for a line of which `find` makes something.
    pub(crate) async fn line<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let mut lines = self.lines.subscribe();
        let found = async {
            loop {
                let found = lines.borrow_and_update().iter().find_map(|line| find(line));
                if let Some(found) = found {
                    return found;
                }
                lines.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(LIMIT, found).await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not come; what came:\n{}", self.lines.borrow().join("\n")),
        }
    }

    /// Ends it without a word to it.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

fn read(stream: impl AsyncRead + Unpin + Send + 'static, lines: watch::Sender<Vec<String>>) {
    tokio::spawn(async move {
        let mut stream = BufReader::new(stream).lines();
        while let Ok(Some(line)) = stream.next_line().await {
            lines.send_modify(|lines| lines.push(line));
        }
    });
}
