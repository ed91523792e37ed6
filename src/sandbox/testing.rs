//! What the stand-ins' own tests share: a clock that is set by hand, and a plain client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::{Options, Sandbox};
use crate::clock::{Clock, Now, SystemClock};
use crate::http::{self, BODY_CAP};

/// Bounds every wait: a test that would hang fails instead.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// Stands still until moved.
#[derive(Clone)]
pub(super) struct HandClock(Arc<Mutex<Now>>);

impl HandClock {
    pub(super) fn new() -> HandClock {
        HandClock(Arc::new(Mutex::new(SystemClock.now())))
    }

    pub(super) fn forward(&self, by: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.after(by);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Now {
        *self.0.lock().unwrap()
    }
}

pub(super) async fn sandbox() -> Sandbox {
    Sandbox::start(Options::default()).await.unwrap()
}

pub(super) async fn sandbox_at(clock: &HandClock) -> Sandbox {
    Sandbox::start(Options { clock: Arc::new(clock.clone()), ..Options::default() }).await.unwrap()
}

pub(super) fn client() -> reqwest::Client {
    // Without certificates to load: the stand-ins speak plain HTTP, and loading takes most of a test.
    http::client_builder().timeout(SOON).tls_certs_only([]).build().unwrap()
}

/// An answer, read whole. A body that is not JSON is a string.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: reqwest::header::HeaderMap,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(super) async fn ask(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = http::read_capped(response, BODY_CAP).await.unwrap();
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Ok(Answer { status, headers, body })
}
