//! What the steps of one delivery cost by themselves: rendering, encryption and signature, a page, the lease table.
//!
//! `cargo bench --bench micro`.

#![allow(clippy::expect_used, missing_docs, reason = "a bench that cannot go on has failed")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use delivery_worker::channel::{Destination, GateId, Route};
use delivery_worker::clock::Now;
use delivery_worker::engine::leases::{Coverage, Leases, Listing};
use delivery_worker::envelope::{self, Envelope, Reading};
use delivery_worker::outbox::Page;
use delivery_worker::render::{Library, Links};
use web_push::{ContentEncoding, SubscriptionInfo, VapidSignatureBuilder, WebPushMessageBuilder};

const DIGEST: &str = include_str!("../templates/your-week-digest.v1/example.json");
const NUDGE: &str = include_str!("../templates/resurface-nudge.v1/example.json");

fn read(json: &str) -> Envelope {
    match envelope::read(json) {
        Reading::Envelope(envelope) => *envelope,
        _ => panic!("an example is an envelope"),
    }
}

fn render(c: &mut Criterion) {
    let origin = "https://app.example.com".parse().expect("a URL");
    let links = Links::new(&origin, "/unsubscribe").expect("an origin");
    let templates = Library::load(None, links).expect("the built-in templates").current();
    let (digest, nudge) = (read(DIGEST), read(NUDGE));
    c.bench_function("render/digest as mail", |b| b.iter(|| templates.mail(black_box(&digest))));
    c.bench_function("render/nudge as mail", |b| b.iter(|| templates.mail(black_box(&nudge))));
    c.bench_function("render/nudge as push", |b| b.iter(|| templates.notification(black_box(&nudge))));
    c.bench_function("read/digest", |b| b.iter(|| envelope::read(black_box(DIGEST))));
}

/// The keys of RFC 8291, 5.
fn crypto(c: &mut Criterion) {
    let browser = SubscriptionInfo::new(
        "https://push.example.com/x",
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
    );
    let plaintext = vec![b'x'; 400];
    c.bench_function("push/encrypt", |b| {
        b.iter(|| {
            let mut message = WebPushMessageBuilder::new(&browser);
            message.set_payload(ContentEncoding::Aes128Gcm, black_box(&plaintext));
            message.build().expect("good keys")
        });
    });
    // Once in six hours for each origin: the token is kept.
    c.bench_function("push/sign", |b| {
        b.iter(|| {
            VapidSignatureBuilder::from_base64("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", &browser)
                .and_then(VapidSignatureBuilder::build)
                .expect("a good key")
        });
    });
}

fn page(c: &mut Criterion) {
    let elements: Vec<String> =
        (0..500).map(|n| DIGEST.replace("example-digest", &format!("d{n}"))).collect();
    let body = format!("{{\"envelopes\":[{}]}}", elements.join(",")).into_bytes();
    let mut group = c.benchmark_group("page");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("500 digests", |b| {
        b.iter_batched(|| body.clone(), |body| Page::decode(body, None), BatchSize::LargeInput);
    });
    group.finish();
}

fn listing(n: usize) -> Listing {
    let json = NUDGE.replace("example-nudge", &format!("n{n}"));
    let to = Destination::new(&format!("reader{n}@example.com"));
    Listing::New(Arc::new(read(&json)), Route { gate: GateId::new("resend", "resend"), destination: to })
}

/// A lease table that holds about so many, whatever is taken out of it.
struct Table {
    leases: Leases,
    gate: GateId,
    held: usize,
    made: usize,
    begin: Now,
}

impl Table {
    fn holding(held: usize) -> Table {
        let leases = Leases::new(Duration::from_secs(3600));
        let begin = Now { mono: Instant::now(), wall: Utc::now() };
        let mut table = Table { leases, gate: GateId::new("resend", "resend"), held, made: 0, begin };
        table.refill();
        table
    }

    /// A page comes that lists what is held, and as many more as are lacking.
    fn refill(&mut self) {
        let lacking = self.held - self.leases.len();
        let mut held: Vec<_> = self.leases.iter().map(|(key, _)| key).collect();
        held.sort_unstable();
        let new = (self.made..self.made + lacking).map(listing);
        let page = held.into_iter().map(Listing::Held).chain(new).collect();
        self.leases.apply(page, Coverage::All, self.begin);
        self.made += lacking;
    }

    /// As one delivery does it: found, taken, accepted, acked.
    fn deliver_one(&mut self) {
        let (_, key) = self.leases.oldest_ready(&self.gate, self.begin).expect("there are some");
        let id = self.leases.get(key).expect("it is held").envelope.id.clone();
        assert!(self.leases.claim(key));
        self.leases.decide(key, true);
        self.leases.release(&id);
    }
}

fn leases(c: &mut Criterion) {
    for held in [500, 50_000] {
        let mut table = Table::holding(held);
        c.bench_function(&format!("leases/one delivered of {held}"), |b| {
            b.iter_custom(|times| {
                let mut took = Duration::ZERO;
                for _ in 0..times {
                    if table.leases.len() < held / 2 {
                        table.refill();
                    }
                    let began = Instant::now();
                    table.deliver_one();
                    took += began.elapsed();
                }
                took
            });
        });
        c.bench_function(&format!("leases/page that lists all {held}"), |b| b.iter(|| table.refill()));
    }
}

criterion_group!(benches, render, crypto, page, leases);
criterion_main!(benches);
