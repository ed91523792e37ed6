//! The programs that are measured, and what the kernel counts for them.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program under measurement; killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts `command` with nothing of this process's environment but `env`.
    pub(crate) fn start(
        mut command: Command,
        env: &[(&str, String)],
        stdout: Stdio,
    ) -> std::io::Result<Process> {
        command.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn().map(Process)
    }

    /// The CPU time of all its threads, to the nanosecond (`schedstat` of proc(5), first field).
    pub(crate) fn cpu(&self) -> std::io::Result<Duration> {
        cpu_of(&self.0.id().to_string())
    }

    /// A line of `/proc/PID/status`, in MiB: VmRSS is what it holds, VmHWM the most that it has held.
    pub(crate) fn mebibytes(&self, name: &str) -> std::io::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<f64>().ok());
        Ok(kib.unwrap_or_default() / 1024.0)
    }

    /// Waits for its end, and takes what it has written.
    pub(crate) fn output(mut self) -> std::io::Result<String> {
        let mut text = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut text)?;
        }
        self.0.wait()?;
        Ok(text)
    }
}

/// The same of this process.
pub(crate) fn own_cpu() -> std::io::Result<Duration> {
    cpu_of("self")
}

fn cpu_of(process: &str) -> std::io::Result<Duration> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end while we look: it has done nothing worth the name.
        let Ok(line) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanoseconds += line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanoseconds))
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
