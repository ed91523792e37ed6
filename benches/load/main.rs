//! What the worker costs: the release binary drains the stand-ins over loopback, and then idles.
//!
//! `make bench`, or `cargo bench --bench load -- 5000` for another number of envelopes. The stand-ins
//! check and decrypt every message in this process, so the rate is theirs as much as the worker's; CPU
//! and memory are the worker's alone, as the kernel counts them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use delivery_worker::sandbox::{Options, Sandbox, examples};

/// How many envelopes when none is asked for.
const ENVELOPES: usize = 2_000;
/// How long an idle worker is watched.
const IDLE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let envelopes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ENVELOPES);
    push(envelopes).await?;
    email(envelopes).await?;
    idle().await
}

async fn push(envelopes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::start(Options::default()).await?;
    for n in 0..envelopes {
        let browser = sandbox.push.subscribe()?;
        sandbox.seam.enqueue(examples::nudge(&format!("push-{n}"), &browser));
    }
    drain("push", &sandbox, envelopes).await
}

async fn email(envelopes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::start(Options::default()).await?;
    for n in 0..envelopes {
        sandbox.seam.enqueue(examples::digest(&format!("mail-{n}"), &format!("reader{n}@example.com")));
    }
    drain("email", &sandbox, envelopes).await
}

/// Runs the worker until every envelope is acked.
async fn drain(what: &str, sandbox: &Sandbox, envelopes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let worker = Worker::start(sandbox)?;
    sandbox.journal.wait_until(|log| log.acks().count() >= envelopes).await;
    let took = began.elapsed().as_secs_f64();
    let used = worker.used()?;
    let log = sandbox.journal.log();
    let delivered = sandbox.seam.statuses().values().filter(|status| status.as_str() == "delivered").count();
    println!(
        "{what}: {envelopes} envelopes, {delivered} delivered, in {took:.2} s: {:.0} a second, \
         {:.2} CPU seconds per thousand, {:.1} MiB at most, {} pages, {} requests refused",
        envelopes as f64 / took,
        used.cpu.as_secs_f64() * 1000.0 / envelopes as f64,
        used.peak_kib as f64 / 1024.0,
        log.pages(),
        log.refusals().count(),
    );
    Ok(())
}

/// Watches a worker that has nothing to do.
async fn idle() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::start(Options::default()).await?;
    let worker = Worker::start(&sandbox)?;
    sandbox.journal.wait_until(|log| log.pages() >= 2).await;
    let before = worker.used()?;
    tokio::time::sleep(IDLE).await;
    let after = worker.used()?;
    println!(
        "idle: {:.1} MiB resident, {:.3} % of one CPU over {} s at the default poll interval",
        after.resident_kib as f64 / 1024.0,
        (after.cpu - before.cpu).as_secs_f64() * 100.0 / IDLE.as_secs_f64(),
        IDLE.as_secs(),
    );
    Ok(())
}

/// The binary under test; killed when it is dropped.
struct Worker(Child);

/// What the kernel counts for a process.
struct Used {
    cpu: Duration,
    resident_kib: u64,
    peak_kib: u64,
}

impl Worker {
    fn start(sandbox: &Sandbox) -> std::io::Result<Worker> {
        Command::new(env!("CARGO_BIN_EXE_delivery-worker"))
            .arg("run")
            .env_clear()
            .envs(sandbox.worker_env())
            .env("RESEND_MAX_RPS", "0")
            .env("DELIVERY_EMAIL_ACK", "accepted")
            .env("DELIVERY_ADMIN_ADDR", "127.0.0.1:0")
            .env("RUST_LOG", "info")
            .stderr(Stdio::null())
            .spawn()
            .map(Worker)
    }

    /// CPU time of all threads, in ticks of 10 ms (proc(5), `stat`, fields 14 and 15).
    fn used(&self) -> std::io::Result<Used> {
        let process = format!("/proc/{}", self.0.id());
        let stat = std::fs::read_to_string(format!("{process}/stat"))?;
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks =
            after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u32>().ok()).sum();
        let cpu = Duration::from_millis(10) * ticks;
        let status = std::fs::read_to_string(format!("{process}/status"))?;
        let kib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1))
                .and_then(|n| n.parse().ok())
                .unwrap_or_default()
        };
        Ok(Used { cpu, resident_kib: kib("VmRSS:"), peak_kib: kib("VmHWM:") })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
