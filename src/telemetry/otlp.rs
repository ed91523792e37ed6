//! Where spans go: an OpenTelemetry collector, over OTLP as protobuf on HTTP.
//!
//! Owns the exporter. It is on where OTEL_EXPORTER_OTLP_ENDPOINT is set, and reads the other variables of the
//! OpenTelemetry specification by itself (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and so on:
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>). It must not know a span.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;

use super::logs::Listener;
use crate::trace::TARGET;

const NAME: &str = "delivery-worker";

/// Sends spans until it is dropped, which sends what is left.
#[derive(Debug)]
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// The exporter of the environment's collector; `None` where there is none.
    ///
    /// # Errors
    /// The exporter cannot be built from the variables.
    pub fn of_environment() -> Result<Option<Exporter>, ExporterBuildError> {
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none_or(|value| value.is_empty()) {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().build()?;
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let resource = Resource::builder();
        let resource = if named { resource } else { resource.with_service_name(NAME) };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Exporter(provider)))
    }

    /// What takes the worker's spans, and nobody else's: a library's hold URLs.
    pub fn listener(&self) -> Listener {
        let tracer = self.0.tracer(NAME);
        let layer =
            tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
        layer.with_filter(filter_fn(|metadata| metadata.target() == TARGET)).boxed()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // A collector that is away gets nothing, and nobody waits for it longer than its deadline.
        self.0.shutdown().ok();
    }
}
