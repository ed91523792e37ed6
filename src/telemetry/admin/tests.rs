//! The server's pages over a real socket, and who is answered.

use std::collections::BTreeMap;
use std::sync::Mutex;

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::envelope::ChannelName;
use crate::http::{BODY_CAP, client_builder, read_capped};
use crate::outbox::SeamError;
use crate::outcome::Cause;
use crate::serve::{CONNECTIONS, REQUEST_CAP};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::{GateState, GateStatus, LaneStatus, LeaseState, Status, Unready};

#[derive(Default)]
struct Worker(Mutex<Status>);

impl StatusSource for Worker {
    fn status(&self) -> Status {
        self.0.lock().unwrap().clone()
    }
}

/// A served worker; it stops when this is dropped.
struct Served {
    worker: Arc<Worker>,
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

async fn serve(status: Status) -> Served {
    let worker = Arc::new(Worker(Mutex::new(status)));
    let admin = Admin::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = admin.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut registry = Registry::default();
    Metrics::new([ChannelName::new("push")]).register(&mut registry);
    tokio::spawn(admin.serve(registry, worker.clone(), Recent::default(), async move {
        stopped.await.ok();
    }));
    Served { worker, address, _stop: stop }
}

impl Served {
    async fn ask(&self, method: Method, path: &str) -> (u16, String) {
        let client = client_builder().build().unwrap();
        let answer = client.request(method, format!("http://{}{path}", self.address)).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, String::from_utf8(read_capped(answer, BODY_CAP).await.unwrap()).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.ask(Method::GET, path).await
    }
}

fn working() -> Status {
    let closed = GateState::Closed { cause: Cause::PushCredential, probe_in: Duration::from_secs(30) };
    let gate = |label, state| GateStatus { label, state };
    let lane = LaneStatus {
        channel: ChannelName::new("push"),
        leases: BTreeMap::from([(LeaseState::Waiting, 3)]),
        window_used: 4,
        window_size: 500,
        gates: vec![gate("other", closed), gate("other", closed), gate("other", GateState::Open)],
        backlog_age: Duration::ZERO,
        last_page: Some(Duration::from_millis(1500)),
    };
    Status { lanes: vec![lane], alive: true, unready: vec![] }
}

#[tokio::test]
async fn health_follows_the_loops() {
    let served = serve(Status { alive: true, ..Status::default() }).await;
    assert_eq!(served.get("/healthz").await, (200, "alive\n".to_owned()));
    served.worker.0.lock().unwrap().alive = false;
    assert_eq!(served.get("/healthz").await.0, 503);
}

#[tokio::test]
async fn readiness_tells_each_reason_in_a_line_of_its_own() {
    let served = serve(working()).await;
    assert_eq!(served.get("/readyz").await, (200, "ready\n".to_owned()));
    served.worker.0.lock().unwrap().unready = vec![
        Unready::GateClosed { label: "resend", cause: Cause::ApiKey },
        Unready::Seam { error: Some(SeamError::Forbidden) },
        Unready::AcksBlocked,
        Unready::AcksFail { count: 1, error: "redirected" },
        Unready::AcksRefused { count: 2 },
        Unready::UnreadableVersion { count: 1 },
        Unready::ClockSkew { seconds: -90 },
        Unready::Stopping,
    ];
    let (status, text) = served.get("/readyz").await;
    assert_eq!(status, 503);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "the gate of resend is closed: api_key",
            "no page comes: something before the seam forbids it to this worker (403): a proxy, or the network's rules?",
            "acks do not get through: no new sends until one does",
            "1 ack(s) do not get through: redirected",
            "the seam refuses 2 ack(s) for good",
            "1 envelope(s) of a schema version that this build does not read",
            "this machine's clock is 90 s behind the seam's",
            "the worker is stopping",
        ]
    );
}

#[tokio::test]
async fn the_gauges_are_those_of_the_moment() {
    let served = serve(working()).await;
    let (status, text) = served.get("/metrics").await;
    assert_eq!(status, 200);
    for sample in [
        "delivery_alive 1.0",
        "delivery_ready 1.0",
        r#"delivery_unready{reason="seam"} 0.0"#,
        r#"delivery_leases{channel="push",state="waiting"} 3.0"#,
        r#"delivery_leases{channel="push",state="sending"} 0.0"#,
        r#"delivery_gates{channel="push",gate="other",state="closed"} 2.0"#,
        r#"delivery_gates{channel="push",gate="other",state="spaced"} 0.0"#,
        r#"delivery_window_used{channel="push"} 4.0"#,
        r#"delivery_window_size{channel="push"} 500.0"#,
        r#"delivery_last_page_age_seconds{channel="push"} 1.5"#,
        "delivery_clock_skew_seconds 0.0",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
    }
    served.worker.0.lock().unwrap().unready = vec![Unready::ClockSkew { seconds: 86_400 }];
    let (_, text) = served.get("/metrics").await;
    for sample in [
        "delivery_ready 0.0",
        r#"delivery_unready{reason="clock_skew"} 1.0"#,
        "delivery_clock_skew_seconds 86400.0",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_channels_counters_are_there_before_anything_has_happened() {
    let (_, text) = serve(working()).await.get("/metrics").await;
    for sample in [
        r#"delivery_panics_total{channel="push"} 0"#,
        r#"delivery_envelopes_total{channel="push",status="bounced"} 0"#,
        r#"delivery_lag_seconds_count{channel="push"} 0"#,
        concat!(r#"delivery_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"), "the exposition is whole");
}

#[tokio::test]
async fn the_readme_lists_every_gauge() {
    let readme = include_str!("../../../README.md");
    let (_, text) = serve(working()).await.get("/metrics").await;
    let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge"));
    for name in described {
        assert!(readme.contains(&format!("`{name}`")), "README.md does not list {name}");
    }
}

#[tokio::test]
async fn nothing_can_be_changed_and_nothing_else_is_there() {
    let served = serve(working()).await;
    assert_eq!(served.ask(Method::POST, "/healthz").await.0, 405);
    let (status, text) = served.get("/elsewhere").await;
    assert_eq!(status, 404);
    assert!(text.contains("/readyz"));
}

/// Connects and says `what`, which is no whole request.
async fn dawdler(address: SocketAddr, what: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what).await.unwrap();
    stream
}

#[tokio::test]
async fn clients_that_dawdle_are_few_at_a_time_and_sent_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pages = Router::new().route("/healthz", get(|| async { "alive\n" }));
    tokio::spawn(accept_all(listener, pages, Duration::from_millis(200)));
    let mut dawdlers = Vec::new();
    for _ in 0..3 * CONNECTIONS {
        dawdlers.push(dawdler(address, b"GET /healthz HTTP/1.1\r\nx-slow: ").await);
    }
    let client = client_builder().build().unwrap();
    let answer = client.get(format!("http://{address}/healthz")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "behind all of them");
    for mut dawdler in dawdlers {
        let mut answer = Vec::new();
        dawdler.read_to_end(&mut answer).await.ok();
        assert!(answer.is_empty(), "it is sent away without an answer");
    }
}

#[tokio::test]
async fn no_more_of_a_request_is_read_than_a_head_can_hold() {
    let served = serve(working()).await;
    let long = vec![b'x'; REQUEST_CAP];
    for (request, status) in [
        ([b"GET /healthz HTTP/1.1\r\nx-long: ".as_slice(), &long, b"\r\n\r\n"].concat(), "431"),
        ([b"GET /".as_slice(), &long].concat(), "431"),
        (b"POST /healthz HTTP/1.1\r\ncontent-length: 1073741824\r\n\r\n".to_vec(), "405"),
        (b"\0\0\r\n\r\n".to_vec(), "400"),
    ] {
        let mut client = dawdler(served.address, &request).await;
        let mut answer = vec![0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), format!("HTTP/1.1 {status}"));
    }
    assert_eq!(served.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn no_bytes_in_the_place_of_a_request_end_the_server() {
    let served = serve(working()).await;
    let mut draws = proptest::test_runner::TestRunner::deterministic();
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..100);
    for begins in ["", "GET /", "GET /healthz HTTP/1.1\r\n", "POST /metrics HTTP/1.1\r\ncontent-length: "] {
        for _ in 0..16 {
            let drawn = proptest::strategy::Strategy::new_tree(&bytes, &mut draws).unwrap();
            let drawn = proptest::strategy::ValueTree::current(&drawn);
            let mut client = dawdler(served.address, &[begins.as_bytes(), &drawn].concat()).await;
            client.shutdown().await.ok();
            let mut answer = Vec::new();
            // A reset is an answer too.
            client.read_to_end(&mut answer).await.ok();
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{answer:?}");
        }
    }
    assert_eq!(served.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_page_is_served_to_whoever_asks_one_request_after_the_other() {
    let served = serve(working()).await;
    let client = client_builder().build().unwrap();
    for _ in 0..3 {
        let answer = client.get(format!("http://{}/metrics", served.address)).send().await.unwrap();
        assert_eq!(answer.headers()["connection"], "close");
        assert!(read_capped(answer, BODY_CAP).await.unwrap().ends_with(b"# EOF\n"));
    }
}

#[tokio::test]
async fn the_status_page_and_its_parts_are_served_and_load_nothing_from_elsewhere() {
    let served = serve(working()).await;
    for (path, holds) in [
        ("/", "4 of 500"),
        ("/status.json", "\"window_size\":500"),
        ("/status.js", "fetch"),
        ("/status.css", "--ink"),
    ] {
        let (status, text) = served.get(path).await;
        assert_eq!(status, 200);
        assert!(
            text.contains(holds) && !text.contains("//cdn") && !text.contains("https://"),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn a_public_name_that_leads_here_reads_no_status_and_a_monitor_may_use_any() {
    let served = serve(working()).await;
    let client = client_builder().build().unwrap();
    let ask = async |path: &str| {
        let request = client.get(format!("http://{}{path}", served.address)).header("host", "evil.test:9110");
        request.send().await.unwrap().status().as_u16()
    };
    for path in ["/", "/status.json", "/status.js", "/status.css"] {
        assert_eq!(ask(path).await, 421, "{path}");
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask(path).await, 200, "{path}");
    }
}

#[tokio::test]
async fn a_taken_address_is_named_with_the_setting() {
    let served = serve(working()).await;
    let error = Admin::bind(served.address).await.unwrap_err().to_string();
    assert!(error.contains(&served.address.to_string()) && error.contains("DELIVERY_ADMIN_ADDR"), "{error}");
}
