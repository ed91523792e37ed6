//! The worker's binary as a child process: its signals, its log and its end.
//!
//! Owns the child, which never outlives its [`Program`]. Both streams are read as they come, so that a
//! test can wait for a line, and are shown when the test fails.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Stdio;

use delivery_worker::http::{BODY_CAP, client_builder, read_capped};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::within;

/// The worker, running.
pub(crate) struct Program {
    child: Child,
    lines: watch::Sender<Vec<String>>,
    readers: Vec<JoinHandle<()>>,
    admin: Option<String>,
}

impl Program {
    /// Starts the binary with `env` and nothing else of this process's environment.
    pub(crate) fn start(arguments: &[&str], env: &BTreeMap<String, String>) -> Program {
        let mut child = Command::new(binary())
            .args(arguments)
            .env_clear()
            .envs(env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = watch::Sender::default();
        let stdout = read(child.stdout.take().unwrap(), lines.clone());
        let stderr = read(child.stderr.take().unwrap(), lines.clone());
        Program { child, lines, readers: vec![stdout, stderr], admin: None }
    }

    /// Waits until it delivers, with its admin server up.
    pub(crate) async fn delivering(mut self) -> Program {
        let line = self.logged("the start", says("delivering")).await;
        self.admin = line["admin"].as_str().map(str::to_owned);
        self
    }

    /// Waits for a log line, also one that is there already.
    pub(crate) async fn logged(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.logged_times(1, what, is).await
    }

    /// Waits until so many log lines are such; the last of them.
    pub(crate) async fn logged_times(&self, times: usize, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut lines = self.lines.subscribe();
        let nth = async {
            loop {
                let nth = log(&lines.borrow_and_update()).filter(&is).nth(times - 1);
                if let Some(line) = nth {
                    return line;
                }
                lines.changed().await.unwrap();
            }
        };
        within(nth, || format!("not logged ({times}): {what}")).await
    }

    /// The log lines so far that are such.
    pub(crate) fn log(&self, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        log(&self.lines.borrow()).filter(is).collect()
    }

    /// Everything that it has written.
    pub(crate) fn output(&self) -> String {
        self.lines.borrow().join("\n")
    }

    /// Closes both streams on it: whoever read its log has gone away.
    pub(crate) async fn stop_reading(&mut self) {
        for reader in self.readers.drain(..) {
            reader.abort();
            assert!(reader.await.unwrap_err().is_cancelled());
        }
    }

    /// The most memory that it has held so far, in bytes (`VmHWM` of proc(5)); `None` where no kernel tells.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
        Some(kilobytes?.trim().parse::<u64>().unwrap() * 1024)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.try_into().unwrap()));
        kill_process(pid.expect("it has ended already"), signal).unwrap();
    }

    /// Waits for its end: the exit code, or `None` where a signal ended it.
    pub(crate) async fn exit(&mut self) -> Option<i32> {
        let ended = async {
            let status = self.child.wait().await.unwrap();
            for reader in &mut self.readers {
                reader.await.unwrap();
            }
            status.code()
        };
        let code = within(ended, || "it did not end".to_owned()).await;
        self.readers.clear();
        code
    }

    /// Where its admin server is.
    pub(crate) fn admin(&self) -> &str {
        self.admin.as_deref().expect("it has no admin server")
    }

    /// Asks its admin server for a page.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        // Without certificates to load: it speaks plain HTTP.
        let client = client_builder().tls_certs_only([]).build().unwrap();
        let answer = client.get(format!("http://{}{path}", self.admin())).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, String::from_utf8(read_capped(answer, BODY_CAP).await.unwrap()).unwrap())
    }

    /// The value of one series.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let (_, text) = self.get("/metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{series} is not in\n{text}")).parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the worker wrote:\n{}\n", self.output());
        }
    }
}

/// The binary that all of these tests are about: the one that WORKER_UNDER_TEST names (`make test` names
/// the release binary, so that what is installed is what was tested), else the one that cargo has just built.
pub(crate) fn binary() -> OsString {
    let named = std::env::var_os("WORKER_UNDER_TEST").filter(|path| !path.is_empty());
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_delivery-worker").into())
}

fn read(stream: impl AsyncRead + Unpin + Send + 'static, to: watch::Sender<Vec<String>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            to.send_modify(|all| all.push(line));
        }
    })
}

fn log(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().filter_map(|line| serde_json::from_str(line).ok().or_else(|| of_text(line)))
}

/// A line of the text format: time, level, message, and fields that are taken for words without spaces.
fn of_text(line: &str) -> Option<Value> {
    let (_, line) = line.split_once(' ')?;
    let (level, message) = line.trim_start().split_once(' ')?;
    let level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].into_iter().find(|l| *l == level)?;
    let fields = message.split(' ').filter_map(|word| word.split_once('='));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.trim_matches('"').into()));
    let head = [("level".to_owned(), level.into()), ("message".to_owned(), message.into())];
    Some(Value::Object(fields.chain(head).collect()))
}

/// A log line whose message begins so.
pub(crate) fn says(message: &str) -> impl Fn(&Value) -> bool {
    move |line| text(line, "message").starts_with(message)
}

/// A field of a log line, empty where there is none.
pub(crate) fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_default()
}

/// A field of a log line.
pub(crate) fn number(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {line}"))
}
