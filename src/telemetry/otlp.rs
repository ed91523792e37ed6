//! Where spans go: an OpenTelemetry collector, over OTLP as protobuf on HTTP.
//!
//! Owns the exporter. It is on where OTEL_EXPORTER_OTLP_ENDPOINT is set, and reads the other variables of the
//! OpenTelemetry specification by itself (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and so on:
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>). It must not know a span.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
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
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build()?;
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let resource = Resource::builder();
        let resource = if named { resource } else { resource.with_service_name(NAME) };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Told { exporter, lost: AtomicBool::new(false) })
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

/// An exporter whose failures are told, once for each run of them: by itself it is silent, and the lines of its library
/// hold URLs.
#[derive(Debug)]
struct Told<E> {
    exporter: E,
    /// Whether the last batch did not get through.
    lost: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Told<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let answer = self.exporter.export(batch).await;
        match (self.lost.swap(answer.is_err(), Ordering::Relaxed), &answer) {
            (false, Err(_)) => tracing::warn!("traces do not get through to the collector: they are lost"),
            (true, Ok(())) => tracing::info!("traces get through to the collector again"),
            (true, Err(_)) | (false, Ok(())) => {}
        }
        answer
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // A collector that is away gets nothing, and nobody waits for it longer than its deadline.
        self.0.shutdown().ok();
    }
}
