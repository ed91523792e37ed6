//! What a template can say beyond handlebars' own words.
//!
//! Links: `app_link PATH` (without a path: the front page), `graph_link REF`, `unsubscribe_link`. A
//! template never writes a URL together itself. Words: `theme NAME TEXT` (what the theme says, TEXT in its
//! place), `plural N ONE MANY`, `total LIST FIELD` (the
//! elements of that field of each element), `timecode MILLISECONDS`, `days INSTANT COUNT` (so many days up to that of
//! the instant, in UTC), `excerpt TEXT CHARACTERS`, `line TEXT` (all of it
//! in one line), `choose WORD a=TEXT b=TEXT other=TEXT` (by what WORD is; `other` for words that nobody knew
//! of), in HTML `lines TEXT` (its line ends kept as `<br>`) and in plain text `heading TEXT RULE`
//! (underlined with RULE). `if` and `unless` are strict here: a field that the payload's
//! schema does not declare is an error and not a false. No helper reads anything but its arguments and the
//! envelope.

use std::sync::Arc;

use chrono::DateTime;
use handlebars::{
    Context, Handlebars, Helper, HelperDef, HelperResult, JsonTruthy, Output, RenderContext, RenderError,
    RenderErrorReason, Renderable, ScopedJson,
};
use serde_json::Value;

use super::links::{BadLink, Links};
use super::text;
use super::theme::{PLACE, Theme};

/// The helpers whose value is a URL: all that may stand in an attribute that a client follows.
pub(super) const LINKS: [&str; 3] = ["app_link", "graph_link", UNSUBSCRIBE];

/// Every helper that a template may use, handlebars' own among them.
pub(super) const KNOWN: [&str; 27] = [
    "if",
    "unless",
    "each",
    "with",
    "lookup",
    "raw",
    "len",
    "eq",
    "ne",
    "gt",
    "gte",
    "lt",
    "lte",
    "and",
    "or",
    "not",
    "app_link",
    "graph_link",
    UNSUBSCRIBE,
    THEME,
    "plural",
    "total",
    "timecode",
    "days",
    "excerpt",
    "line",
    "choose",
];

/// The helper that only HTML has.
pub(super) const LINES: &str = "lines";

/// The helper that only plain text has.
pub(super) const HEADING: &str = "heading";

/// The helper that knows the theme.
pub(super) const THEME: &str = "theme";

/// Where a template finds the unsubscribe link: made before rendering, because only it knows the
/// reference.
pub(super) const UNSUBSCRIBE: &str = "unsubscribe_link";

/// Adds what HTML and plain text have in common.
pub(super) fn register(registry: &mut Handlebars<'static>, links: &Arc<Links>, theme: &Arc<Theme>) {
    registry.register_helper("if", Box::new(Conditional { on: true }));
    registry.register_helper("unless", Box::new(Conditional { on: false }));
    let app = Arc::clone(links);
    computed(registry, "app_link", move |h, _| match h.param(0) {
        None => Ok(app.home().as_str().into()),
        Some(_) => address(app.app(string(h, 0)?).map(String::from)),
    });
    let graph = Arc::clone(links);
    computed(registry, "graph_link", move |h, _| {
        let reference = given(h, 0)?;
        let field = |name| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        address(graph.graph(field("kind"), field("id")))
    });
    computed(registry, UNSUBSCRIBE, |_, context| {
        context.data().get(UNSUBSCRIBE).cloned().ok_or_else(|| "is not known".to_owned())
    });
    let theme = Arc::clone(theme);
    computed(registry, THEME, move |h, _| {
        let value = theme.get(string(h, 0)?).ok_or("has no such name")?;
        Ok(match h.param(1) {
            None => value.into(),
            Some(_) => value.replacen(PLACE, string(h, 1)?, 1).into(),
        })
    });
    computed(registry, "plural", |h, _| {
        let number = whole(h, 0)?;
        let words = string(h, if number == 1 { 1 } else { 2 })?;
        Ok(words.replacen(PLACE, &number.to_string(), 1).into())
    });
    computed(registry, "total", |h, _| {
        let (list, field) = (given(h, 0)?, string(h, 1)?);
        let list = list.as_array().ok_or("takes a list")?;
        Ok(list.iter().filter_map(|it| it.get(field)?.as_array()).map(Vec::len).sum::<usize>().into())
    });
    computed(registry, "timecode", |h, _| Ok(text::timecode(whole(h, 0)?).into()));
    computed(registry, "days", |h, _| {
        let last = DateTime::parse_from_rfc3339(string(h, 0)?).map_err(|_| "takes an instant of RFC 3339")?;
        Ok(text::days(last.to_utc().date_naive(), whole(h, 1)?).into())
    });
    computed(registry, "line", |h, _| Ok(text::one_line(string(h, 0)?).into()));
    computed(registry, "choose", |h, _| {
        let chosen = given(h, 0)?.as_str().and_then(|word| h.hash_get(word));
        let chosen = chosen.or_else(|| h.hash_get("other")).ok_or("lacks other=")?;
        Ok(chosen.value().clone())
    });
    computed(registry, "excerpt", |h, _| {
        let most = usize::try_from(whole(h, 1)?).unwrap_or(usize::MAX);
        Ok(text::excerpt(string(h, 0)?, most).into())
    });
}

/// Adds what only HTML has.
pub(super) fn register_html(registry: &mut Handlebars<'static>) {
    registry.register_helper(LINES, Box::new(Lines));
}

/// Adds what only plain text has.
pub(super) fn register_plain(registry: &mut Handlebars<'static>) {
    computed(registry, HEADING, |h, _| {
        let (words, rule) = (text::one_line(string(h, 0)?), string(h, 1)?);
        Ok(format!("{words}\n{}", rule.repeat(words.chars().count().min(text::LINE))).into())
    });
}

fn address(link: Result<String, BadLink>) -> Result<Value, String> {
    link.map(Value::from).map_err(|bad| bad.to_string())
}

/// The argument at `index`, which must be there.
fn given<'a>(h: &'a Helper<'_>, index: usize) -> Result<&'a Value, String> {
    match h.param(index) {
        None => Err(format!("lacks argument {}", index + 1)),
        Some(it) if it.is_value_missing() => {
            Err(format!("{} is missing", it.relative_path().map_or("a field", String::as_str)))
        }
        Some(it) => Ok(it.value()),
    }
}

fn string<'a>(h: &'a Helper<'_>, index: usize) -> Result<&'a str, String> {
    given(h, index)?.as_str().ok_or_else(|| format!("argument {} is no text", index + 1))
}

/// A whole number, also one that arrived as `3.0`.
fn whole(h: &Helper<'_>, index: usize) -> Result<u64, String> {
    let number = given(h, index)?;
    let from_float = || {
        let float = number.as_f64()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
        (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
    };
    number.as_u64().or_else(from_float).ok_or_else(|| format!("argument {} is no whole number", index + 1))
}

fn refuse(helper: &str, problem: &str) -> RenderError {
    RenderErrorReason::Other(format!("{helper}: {problem}")).into()
}

/// A helper that makes a value; handlebars escapes it as it does any other.
struct Computed<F>(F);

impl<F> HelperDef for Computed<F>
where
    F: Fn(&Helper<'_>, &Context) -> Result<Value, String>,
{
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        h: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        context: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        (self.0)(h, context).map(ScopedJson::Derived).map_err(|problem| refuse(h.name(), &problem))
    }
}

fn computed<F>(registry: &mut Handlebars<'static>, name: &str, make: F)
where
    F: Fn(&Helper<'_>, &Context) -> Result<Value, String> + Send + Sync + 'static,
{
    registry.register_helper(name, Box::new(Computed(make)));
}

/// `if` and `unless`, for which a field that is not there at all is no answer.
struct Conditional {
    on: bool,
}

impl HelperDef for Conditional {
    fn call<'reg: 'rc, 'rc>(
        &self,
        h: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        context: &'rc Context,
        rc: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let condition = given(h, 0).map_err(|problem| refuse(h.name(), &problem))?;
        let include_zero = h.hash_get("includeZero").is_some_and(|it| it.value() == &Value::Bool(true));
        let chosen = if condition.is_truthy(include_zero) == self.on { h.template() } else { h.inverse() };
        chosen.map_or(Ok(()), |template| template.render(registry, context, rc, out))
    }
}

/// Escapes by itself, because what it writes is markup.
struct Lines;

impl HelperDef for Lines {
    fn call<'reg: 'rc, 'rc>(
        &self,
        h: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let data = string(h, 0).map_err(|problem| refuse(h.name(), &problem))?;
        Ok(out.write(&text::escape_html(data).replace('\n', "<br>"))?)
    }
}
