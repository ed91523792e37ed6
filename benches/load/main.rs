//! What the worker costs: the release binary drains stand-ins over loopback, beside the floor of the same run.
//!
//! `make bench`, or `cargo bench --bench load -- push pending` for some of it. Each line states what was measured and the
//! bar that it is held to. CPU and memory are the worker's alone, as the kernel
//! counts them: the stand-ins are in this process, on the same machine, so that rates are theirs as much as the worker's.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a bench that cannot go on has failed")]

mod floor;
mod process;
mod stand;

use std::process::{Command, Stdio};
use std::time::Duration;

use floor::Floor;
use process::Process;
use stand::{Load, Stand};
use tokio::runtime::Builder;

/// Whatever stops a bench.
pub(crate) type Anything = Box<dyn std::error::Error + Send + Sync>;

/// How many envelopes a run has.
const ENVELOPES: usize = 5_000;
/// What the worker and the floor have at once; the defaults of the configuration.
const WORKERS: [(&str, usize); 2] = [("push", 32), ("email", 4)];
/// A slow provider.
const SLOW: Duration = Duration::from_millis(80);
/// Worker and floor take turns so often, and the median of each counts.
const TURNS: usize = 3;
/// How long an idle worker is watched.
const IDLE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Anything> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [flag, channel, address, envelopes, workers, body] = words.as_slice()
        && flag == "--floor"
    {
        let floor = Floor {
            channel: channel.clone(),
            address: address.clone(),
            envelopes: envelopes.parse()?,
            workers: workers.parse()?,
            body: body.parse()?,
        };
        // One thread, as the worker has.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        println!("{}", runtime.block_on(floor::run(floor))?);
        return Ok(());
    }
    Builder::new_multi_thread().enable_all().build()?.block_on(measure(&words))
}

/// All that is asked for by name; all there is, if nothing is.
async fn measure(words: &[String]) -> Result<(), Anything> {
    let asked = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    for (channel, workers) in WORKERS {
        if asked(channel) {
            cost(channel, workers).await?;
        }
        if asked("slow") {
            slow(channel, workers).await?;
        }
    }
    if asked("pending") {
        pending().await?;
    }
    if asked("memory") {
        memory().await?;
    }
    if asked("idle") {
        idle().await?;
    }
    Ok(())
}

fn load(channel: &'static str) -> Load {
    Load { channel, envelopes: ENVELOPES, pending: ENVELOPES, bytes: 0, answers_after: Duration::ZERO }
}

/// CPU per envelope against the floor, provider and seam answering at once.
async fn cost(channel: &'static str, workers: usize) -> Result<(), Anything> {
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let run = Run::of(&load(channel), &[channel]).await?;
        println!("{channel}, answered at once: {run}");
        floors.push(floor(channel, workers, run.body).await? * 1e6 / ENVELOPES as f64);
        ours.push(run.cpu_each());
    }
    let (ours, floor) = (median(ours), median(floors));
    println!(
        "{channel}: {ours:.0} µs of CPU each, the floor {floor:.0} µs: {:.2} × the floor (bar 1.5)",
        ours / floor
    );
    Ok(())
}

async fn floor(channel: &'static str, workers: usize, body: usize) -> Result<f64, Anything> {
    let stand = Stand::start(&load(channel)).await?;
    stand.open();
    let mut command = Command::new(std::env::current_exe()?);
    let address = stand.address.to_string();
    command.args(["--floor", channel, &address, &ENVELOPES.to_string()]);
    command.args([workers.to_string(), body.to_string()]);
    let child = Process::start(command, &[], Stdio::piped())?;
    let output = tokio::task::spawn_blocking(|| child.output()).await??;
    Ok(output.trim().parse()?)
}

/// The rate against a provider that takes its time: the workers alone should be its bound.
async fn slow(channel: &'static str, workers: usize) -> Result<(), Anything> {
    let run = Run::of(&Load { answers_after: SLOW, ..load(channel) }, &[channel]).await?;
    let most = workers as f64 / SLOW.as_secs_f64();
    println!("{channel}, answered after {} ms: {run}", SLOW.as_millis());
    println!(
        "{channel}: {:.0} % of the {most:.0} a second that {workers} workers can (bar 90 %)",
        run.rate() / most * 100.0
    );
    Ok(())
}

/// Whether an envelope costs more the more of them wait.
async fn pending() -> Result<(), Anything> {
    let load = Load { envelopes: 50_000, ..load("push") };
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        few.push(Run::of(&Load { pending: 500, ..load }, &["push"]).await?.cpu_each());
        many.push(Run::of(&Load { pending: 50_000, ..load }, &["push"]).await?.cpu_each());
    }
    let (few, many) = (median(few), median(many));
    println!(
        "pending: {few:.0} µs of CPU each with 500 pending, {many:.0} µs with 50,000: {:+.1} % (bar +10 %)",
        (many / few - 1.0) * 100.0
    );
    Ok(())
}

/// The most memory with a full window of larger envelopes.
async fn memory() -> Result<(), Anything> {
    for (channel, _) in WORKERS {
        let load = Load { envelopes: 2_000, bytes: 5_000, answers_after: SLOW / 4, ..load(channel) };
        let run = Run::of(&load, &[channel]).await?;
        println!("memory: {channel}, a full window of 5 kB envelopes: {:.1} MiB at most (bar 48)", run.peak);
    }
    Ok(())
}

/// A worker that has nothing to do, at the default poll interval.
async fn idle() -> Result<(), Anything> {
    let stand = Stand::start(&Load { envelopes: 0, ..load("push") }).await?;
    let worker = worker(&stand, &["email", "push"])?;
    stand.asked(4).await;
    let before = worker.cpu()?;
    tokio::time::sleep(IDLE).await;
    let used = worker.cpu()? - before;
    println!(
        "idle: {:.1} MiB resident (bar 16), {:.3} % of one CPU over {} s (bar 0.1)",
        worker.mebibytes("VmRSS:")?,
        used.as_secs_f64() * 100.0 / IDLE.as_secs_f64(),
        IDLE.as_secs(),
    );
    Ok(())
}

/// What one drain came to.
struct Run {
    envelopes: usize,
    took: Duration,
    cpu: Duration,
    peak: f64,
    pages: usize,
    lags: Vec<Duration>,
    body: usize,
}

impl Run {
    /// Starts the worker, lets it come to rest, and measures from the first listing to the last ack.
    async fn of(load: &Load, channels: &[&str]) -> Result<Run, Anything> {
        let stand = Stand::start(load).await?;
        let worker = worker(&stand, channels)?;
        stand.asked(1).await;
        let before = worker.cpu()?;
        stand.open();
        stand.drained().await;
        if stand.failed() > 0 {
            return Err(format!("{} envelopes were not delivered", stand.failed()).into());
        }
        Ok(Run {
            envelopes: load.envelopes,
            took: stand.took(),
            cpu: worker.cpu()? - before,
            peak: worker.mebibytes("VmHWM:")?,
            pages: stand.pages(),
            lags: stand.lags(),
            body: stand.body(),
        })
    }

    fn rate(&self) -> f64 {
        self.envelopes as f64 / self.took.as_secs_f64()
    }

    /// Microseconds of CPU per envelope.
    fn cpu_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.envelopes as f64
    }

    fn lag(&self, of_a_hundred: usize) -> f64 {
        self.lags[(self.lags.len() * of_a_hundred / 100).min(self.lags.len() - 1)].as_secs_f64() * 1e3
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} envelopes, {:.0} a second, {:.3} CPU seconds per thousand, {:.1} MiB at most, listed to acked \
             {:.0} ms (p50) and {:.0} ms (p99), {} pages, bodies of {} bytes",
            self.envelopes,
            self.rate(),
            self.cpu_each() / 1e3,
            self.peak,
            self.lag(50),
            self.lag(99),
            self.pages,
            self.body,
        )
    }
}

/// The binary, as an operator runs it; `channels` are those that it drains.
fn worker(stand: &Stand, channels: &[&str]) -> std::io::Result<Process> {
    let here = format!("http://{}", stand.address);
    let env = [
        ("OUTBOX_BASE_URL", here.clone()),
        ("INTERNAL_OUTBOX_TOKEN", "token".to_owned()),
        ("APP_ORIGIN", "https://app.example.com".to_owned()),
        ("RESEND_BASE_URL", here),
        ("RESEND_API_KEY", "re_0123456789".to_owned()),
        ("RESEND_MAX_RPS", "0".to_owned()),
        ("MAIL_FROM", "Your Week <week@mail.example.com>".to_owned()),
        ("DELIVERY_EMAIL_ACK", "accepted".to_owned()),
        // The private key of RFC 8291, 5: everybody's.
        ("VAPID_PRIVATE_KEY", "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94".to_owned()),
        ("VAPID_SUBJECT", "mailto:push@example.com".to_owned()),
        ("PUSH_ALLOW_PRIVATE_ENDPOINTS", "true".to_owned()),
        ("DELIVERY_CHANNELS", channels.join(",")),
        ("DELIVERY_ADMIN_ADDR", "127.0.0.1:0".to_owned()),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_delivery-worker"));
    command.arg("run");
    Process::start(command, &env, Stdio::null())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
