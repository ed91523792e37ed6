//! Spans for OpenTelemetry: a poll, a delivery, its send, an ack.
//!
//! Owns their names and fields, which hold no personal data, what makes one trace of an envelope's attempts and acks, and the
//! trace context that the seam is told. Without the feature `otlp` nothing of this is in the build: a span is then none,
//! and costs nothing. It must not know where spans go, which is `telemetry::otlp`'s.

#[cfg(feature = "otlp")]
use opentelemetry::trace::TraceContextExt;
use tracing::{Span, field};
#[cfg(feature = "otlp")]
use tracing_opentelemetry::OpenTelemetrySpanExt;

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

/// The trace of one envelope: this process's first attempt begins it, and all that comes after belongs to it.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    #[cfg(feature = "otlp")]
    first: Option<opentelemetry::trace::SpanContext>,
}

#[cfg(feature = "otlp")]
impl Trace {
    /// Makes `span` a part of the trace, or the trace's beginning if it has none.
    fn take_in(&mut self, span: &Span) {
        self.adopt(span);
        self.first.get_or_insert_with(|| span.context().span().span_context().clone());
    }

    /// Makes `span` a part of the trace, if that has begun.
    fn adopt(&self, span: &Span) {
        if let Some(first) = &self.first {
            // Refused where spans go nowhere.
            span.set_parent(opentelemetry::Context::new().with_remote_span_context(first.clone())).ok();
        }
    }
}

#[cfg(not(feature = "otlp"))]
impl Trace {
    fn take_in(&mut self, _: &Span) {}

    fn adopt(&self, _: &Span) {}
}

/// One attempt at an envelope, rendering included. [`ended`] fills in what came of it.
pub fn delivery(envelope: &str, channel: &str, template: &str, trace: &mut Trace) -> Span {
    let span = span!("delivery", envelope, channel, template, outcome = field::Empty, cause = field::Empty);
    trace.take_in(&span);
    span
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
pub fn ack(envelope: &str, channel: &str, status: &str, trace: &Trace) -> Span {
    let span = span!("ack", envelope, channel, status, otel.kind = "client");
    trace.adopt(&span);
    span
}

/// The value of `traceparent` (W3C Trace Context, 3.2) for a request of the current span, if that is traced.
#[cfg(feature = "otlp")]
pub fn parent() -> Option<String> {
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
