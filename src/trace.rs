//! Spans for OpenTelemetry: a poll, a delivery, its send, an ack.
//!
//! Owns their names and fields, which hold no personal data, and the trace context that the seam is told. Without the
//! feature `otlp` nothing of this is in the build: a span is then none, and costs nothing. It must not know where
//! spans go, which is `telemetry::otlp`'s.

use tracing::{Span, field};

/// The target of every span: no log line and no library's span has it.
pub const TARGET: &str = "delivery_worker_trace";

macro_rules! span {
    ($($fields:tt)*) => {
        if cfg!(feature = "otlp") { tracing::info_span!(target: TARGET, $($fields)*) } else { Span::none() }
    };
}

/// One request for a page.
pub fn poll(channel: &str) -> Span {
    span!("poll", channel, otel.kind = "client")
}

/// One attempt at an envelope, rendering included. [`ended`] fills in what came of it.
pub fn delivery(envelope: &str, channel: &str, template: &str) -> Span {
    span!("delivery", envelope, channel, template, outcome = field::Empty, cause = field::Empty)
}

/// What a delivery came to.
pub fn ended(delivery: &Span, outcome: &str, cause: &str) {
    delivery.record("outcome", outcome).record("cause", cause);
}

/// One exchange with a provider.
pub fn send(gate: &str) -> Span {
    span!("send", gate, otel.kind = "client")
}

/// One status post.
pub fn ack(envelope: &str, channel: &str, status: &str) -> Span {
    span!("ack", envelope, channel, status, otel.kind = "client")
}

/// The value of `traceparent` (W3C Trace Context, 3.2) for a request of the current span, if that is traced.
#[cfg(feature = "otlp")]
pub fn parent() -> Option<String> {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = Span::current().context();
    let span = context.span().span_context().clone();
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    span.is_valid().then(|| format!("00-{trace:032x}-{id:016x}-{flags:02x}"))
}

/// There is none in this build.
#[cfg(not(feature = "otlp"))]
pub fn parent() -> Option<String> {
    None
}
