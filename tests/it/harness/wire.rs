//! Servers on wiremock, written from the contract alone: what the stand-ins read into a request, these
//! hand over as it came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::watch;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::within;

/// A server that answers as it is told, and tells of each request.
pub(crate) struct Wire {
    server: MockServer,
    told: watch::Sender<Vec<Request>>,
}

struct Answering<F> {
    answer: F,
    told: watch::Sender<Vec<Request>>,
}

impl<F: Fn(&Request) -> ResponseTemplate + Send + Sync> Respond for Answering<F> {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let answer = (self.answer)(request);
        self.told.send_modify(|all| all.push(request.clone()));
        answer
    }
}

impl Wire {
    /// Answers each request with `answer`.
    pub(crate) async fn start(answer: impl Fn(&Request) -> ResponseTemplate + Send + Sync + 'static) -> Wire {
        let told = watch::Sender::default();
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(Answering { answer, told: told.clone() }).mount(&server).await;
        Wire { server, told }
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        self.server.uri()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.told.borrow().clone()
    }

    /// Waits until `holds` is true of its requests.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let mut told = self.told.subscribe();
        let came = async { told.wait_for(|all| holds(all)).await.unwrap().clone() };
        let seen = || {
            let lines = self.requests().into_iter().map(|r| format!("{} {}", r.method, r.url));
            format!("{what}: did not come. Requests:\n  {}", lines.collect::<Vec<_>>().join("\n  "))
        };
        within(came, seen).await
    }
}

/// The seam as the contract words it, over a fixed list of elements.
pub(crate) struct WireSeam {
    wire: Wire,
    acks: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl WireSeam {
    /// Lists `elements`, whatever the channel, until they are acked.
    pub(crate) async fn start(elements: Vec<Value>) -> WireSeam {
        let acks: Arc<Mutex<BTreeMap<String, Value>>> = Arc::default();
        let stored = acks.clone();
        let answer = move |request: &Request| {
            let mut acks = stored.lock().unwrap();
            if let Some(id) = acked_id(request) {
                let posted: Value = serde_json::from_slice(&request.body).unwrap();
                let kept = acks.entry(id).or_insert(posted);
                return ResponseTemplate::new(200).set_body_json(json!({"status": kept["status"]}));
            }
            let limit = query(request, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(0);
            let pending = |element: &&Value| element["id"].as_str().is_none_or(|id| !acks.contains_key(id));
            let page: Vec<&Value> = elements.iter().filter(pending).take(limit).collect();
            ResponseTemplate::new(200).set_body_json(json!({"envelopes": page}))
        };
        WireSeam { wire: Wire::start(answer).await, acks }
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        self.wire.url()
    }

    /// Waits until so many envelopes are acked; what was posted for each.
    pub(crate) async fn acked(&self, count: usize) -> BTreeMap<String, Value> {
        self.wire.until(&format!("{count} acks"), |_| self.acks.lock().unwrap().len() >= count).await;
        self.acks.lock().unwrap().clone()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.wire.requests()
    }

    /// Waits for so many pages more.
    pub(crate) async fn more_pages(&self, more: usize) {
        let pages = |all: &[Request]| all.iter().filter(|request| acked_id(request).is_none()).count();
        let before = pages(&self.requests());
        self.wire.until("more pages", |all| pages(all) >= before + more).await;
    }
}

fn acked_id(request: &Request) -> Option<String> {
    let id = request.url.path().strip_prefix("/internal/outbox/")?.strip_suffix("/status")?;
    Some(percent_decode_str(id).decode_utf8().unwrap().into_owned())
}

fn query(request: &Request, name: &str) -> Option<String> {
    request.url.query_pairs().find(|(n, _)| n == name).map(|(_, value)| value.into_owned())
}
