//! What a template may not do, found by reading it rather than by a rendering that happens to get there.
//!
//! Owns [`inspect`]: nothing goes out unescaped, partials and helpers exist, and a URL in an attribute is
//! one link helper, whole; and [`circle`]: no partial includes itself. It must not know a payload.

use std::collections::{BTreeSet, HashMap};

use handlebars::Template;
use handlebars::template::{DecoratorTemplate, HelperTemplate, Parameter, TemplateElement};
use serde_json::Value;

use super::helpers;
use super::theme::Theme;

/// The attributes that a mail client loads or follows.
const URL_ATTRIBUTES: [&str; 5] = ["href", "src", "background", "action", "srcset"];

/// What a partial that is called as a block calls the block by.
pub(super) const PARTIAL_BLOCK: &str = "@partial-block";

/// Which rules a template is read by.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    /// Whether it writes HTML.
    pub(super) html: bool,
    /// The names that there are to use.
    pub(super) theme: &'a Theme,
    /// Whether a partial of that name exists.
    pub(super) has_partial: &'a dyn Fn(&str) -> bool,
}

/// A problem, and the line that it is in.
pub(super) type Problem = (Option<usize>, String);

/// The problems of a template.
pub(super) fn inspect(template: &Template, rules: Rules<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(template, rules, &mut problems);
    problems
}

fn walk(template: &Template, rules: Rules<'_>, problems: &mut Vec<Problem>) {
    let mut attribute = Attribute::default();
    for (index, element) in template.elements.iter().enumerate() {
        let line = template.mapping.get(index).map(|place| place.0);
        if rules.html && !attribute.take(element) {
            let problem = "a URL in an attribute must be one link helper and nothing beside it, \
                           such as href=\"{{app_link deep_link}}\"";
            problems.push((line, problem.to_owned()));
        }
        match element {
            TemplateElement::HtmlExpression(_) => {
                problems.push((line, "{{{ }}} and {{& }} write unescaped data: use {{ }}".to_owned()));
            }
            TemplateElement::Expression(it) => helper(it, line, rules, problems),
            TemplateElement::HelperBlock(it) => {
                helper(it, line, rules, problems);
                for inner in it.template.iter().chain(&it.inverse) {
                    walk(inner, rules, problems);
                }
            }
            TemplateElement::PartialExpression(it) | TemplateElement::PartialBlock(it) => {
                partial(it, line, rules, problems);
            }
            TemplateElement::DecoratorExpression(_) | TemplateElement::DecoratorBlock(_) => {
                problems
                    .push((line, "{{* }} has no meaning here: a partial is a file of its own".to_owned()));
            }
            _ => {}
        }
    }
}

fn partial(it: &DecoratorTemplate, line: Option<usize>, rules: Rules<'_>, problems: &mut Vec<Problem>) {
    match it.name.as_name() {
        Some(PARTIAL_BLOCK) => {}
        Some(name) if (rules.has_partial)(name) => {}
        Some(name) => problems.push((line, format!("there is no partial {name}"))),
        None => problems.push((line, "a partial is called by its name, and no data chooses it".to_owned())),
    }
    arguments(it.params.iter().chain(it.hash.values()), line, rules, problems);
    if let Some(inner) = &it.template {
        walk(inner, rules, problems);
    }
}

/// A name alone may be a field; with arguments or a block it is a helper.
fn helper(it: &HelperTemplate, line: Option<usize>, rules: Rules<'_>, problems: &mut Vec<Problem>) {
    if it.block || !it.params.is_empty() || !it.hash.is_empty() {
        let known = |name| {
            helpers::KNOWN.contains(&name)
                || name == if rules.html { helpers::LINES } else { helpers::HEADING }
        };
        match it.name.as_name() {
            Some(name) if !known(name) => problems.push((line, format!("there is no helper {name}"))),
            _ => {}
        }
    }
    if it.name.as_name() == Some(helpers::THEME) {
        problems.extend(theme_problem(it.params.first(), rules.theme).map(|problem| (line, problem)));
    }
    arguments(it.params.iter().chain(it.hash.values()), line, rules, problems);
}

/// A name of the theme is written where it is used, so that a wrong one is found without a rendering that
/// happens to need it.
fn theme_problem(name: Option<&Parameter>, theme: &Theme) -> Option<String> {
    match name {
        Some(Parameter::Literal(Value::String(name))) if theme.get(name).is_some() => None,
        Some(Parameter::Literal(Value::String(name))) => Some(format!("there is no {name} in the theme")),
        _ => {
            Some("theme takes a name in quotation marks, such as {{theme \"words.unsubscribe\"}}".to_owned())
        }
    }
}

fn arguments<'a>(
    all: impl Iterator<Item = &'a Parameter>,
    line: Option<usize>,
    rules: Rules<'_>,
    problems: &mut Vec<Problem>,
) {
    for parameter in all {
        if let Parameter::Subexpression(inner) = parameter
            && let TemplateElement::Expression(inner) = inner.element.as_ref()
        {
            helper(inner, line, rules, problems);
        }
    }
}

/// The partial by way of which the partial `name` includes itself, which may be itself. Rendering such a one
/// would end the process, its stack used up.
pub(super) fn circle<'a>(name: &'a str, templates: &'a HashMap<String, Template>) -> Option<&'a str> {
    let mut seen = BTreeSet::from([name]);
    let mut next = vec![name];
    while let Some(via) = next.pop() {
        let mut included = Vec::new();
        if let Some(template) = templates.get(via) {
            includes(template, &mut included);
        }
        if included.contains(&name) {
            return Some(via);
        }
        next.extend(included.into_iter().filter(|included| seen.insert(included)));
    }
    None
}

fn includes<'a>(template: &'a Template, found: &mut Vec<&'a str>) {
    for element in &template.elements {
        match element {
            TemplateElement::HelperBlock(it) => {
                it.template.iter().chain(&it.inverse).for_each(|inner| includes(inner, found));
            }
            TemplateElement::PartialExpression(it) | TemplateElement::PartialBlock(it) => {
                found.extend(it.name.as_name());
                it.template.iter().for_each(|inner| includes(inner, found));
            }
            _ => {}
        }
    }
}

/// Where the elements read so far leave off.
#[derive(Default, Clone, Copy)]
enum Attribute {
    /// Not in the value of a URL attribute.
    #[default]
    Outside,
    /// In one, with nothing of the value written yet.
    Begun(char),
    /// In one, with part of a URL written.
    Partly(char),
    /// In one, after a link helper: only the closing quote may follow.
    Filled(char),
}

impl Attribute {
    /// Goes on to the next element; `false` if that writes a URL together.
    fn take(&mut self, element: &TemplateElement) -> bool {
        match (*self, element) {
            (Attribute::Outside, TemplateElement::RawString(text)) => *self = Attribute::after(text),
            (Attribute::Begun(quote) | Attribute::Partly(quote), TemplateElement::RawString(text)) => {
                *self = match text.split_once(quote) {
                    Some((_, rest)) => Attribute::after(rest),
                    None => Attribute::Partly(quote),
                };
            }
            (Attribute::Filled(quote), TemplateElement::RawString(text)) => match text.strip_prefix(quote) {
                Some(rest) => *self = Attribute::after(rest),
                None => return self.leave(),
            },
            (Attribute::Outside, _) | (_, TemplateElement::Comment(_)) => {}
            (Attribute::Begun(quote), TemplateElement::Expression(it))
                if it.name.as_name().is_some_and(|name| helpers::LINKS.contains(&name)) =>
            {
                *self = Attribute::Filled(quote);
            }
            _ => return self.leave(),
        }
        true
    }

    fn leave(&mut self) -> bool {
        *self = Attribute::Outside;
        false
    }

    /// Whether `text`, which begins outside any URL attribute, ends within one.
    fn after(text: &str) -> Attribute {
        let tag = text.rsplit_once('<').map_or(text, |(_, tag)| tag).to_ascii_lowercase();
        if tag.contains('>') {
            return Attribute::Outside;
        }
        let mut open = URL_ATTRIBUTES.iter().filter_map(|name| {
            let (_, value) = tag.rsplit_once(name)?;
            let value = value.trim_start().strip_prefix('=')?.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            match (quote, value.get(1..)) {
                (Some(quote), Some("")) => Some(Attribute::Begun(quote)),
                (Some(quote), Some(rest)) if !rest.contains(quote) => Some(Attribute::Partly(quote)),
                // Without a quote the value ends at white space; such a value takes no helper at all.
                (None, _) if !value.contains([' ', '>', '\n']) => Some(Attribute::Partly(' ')),
                _ => None,
            }
        });
        open.next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(source: &str) -> Vec<Problem> {
        let template = Template::compile(source).unwrap();
        let theme = Theme::read("[words]\nmore = \"More\"", "").unwrap();
        inspect(&template, Rules { html: true, theme: &theme, has_partial: &|name| name == "item" })
    }

    fn one(source: &str) -> Problem {
        let mut problems = problems(source);
        assert_eq!(problems.len(), 1, "{source}: {problems:?}");
        problems.remove(0)
    }

    #[test]
    fn unescaped_data_is_refused_wherever_it_hides() {
        assert_eq!(one("a\n{{{quote}}}").0, Some(2));
        assert!(one("{{&quote}}").1.contains("unescaped"));
        assert_eq!(one("{{#each items}}\n{{#if x}}\n{{{y}}}{{/if}}{{/each}}").0, Some(3));
        assert_eq!(one("{{#if x}}{{else}}{{{y}}}{{/if}}").0, Some(1));
    }

    #[test]
    fn partials_and_helpers_that_do_not_exist_are_named() {
        assert_eq!(
            one("{{#if x}}\n{{> missing}}{{/if}}"),
            (Some(2), "there is no partial missing".to_owned())
        );
        assert_eq!(one("{{#if (equals a b)}}x{{/if}}"), (Some(1), "there is no helper equals".to_owned()));
        assert!(one("{{#*inline \"item\"}}{{{x}}}{{/inline}}").1.contains("a file of its own"));
        assert_eq!(one("{{theme \"words.mor\"}}").1, "there is no words.mor in the theme");
        assert!(
            one("{{#if x}}{{> item title=(choose x other=(theme name))}}{{/if}}").1.contains("takes a name")
        );
        assert_eq!(one("{{shout x}}"), (Some(1), "there is no helper shout".to_owned()));
        assert!(problems("{{> item}}{{plain_field}}{{lines x}}{{#if (eq a 1)}}{{/if}}").is_empty());
    }

    #[test]
    fn a_url_that_is_written_together_is_refused() {
        for source in [
            "<a href=\"{{deep_link}}\">x</a>",
            "<a href=\"https://app.test{{deep_link}}\">x</a>",
            "<a class=\"b\" HREF='{{app_link x}}?y={{z}}'>x</a>",
            "<a href=\"{{app_link x}}&y\">x</a>",
            "<a href={{app_link x}}>x</a>",
            "<a href =\n \"{{x}}\">x</a>",
            "<a href=\"{{#if x}}{{app_link x}}{{/if}}\">x</a>",
            "<img src=\"{{excerpt x 3}}\">",
        ] {
            assert!(one(source).1.contains("link helper"), "{source}");
        }
    }

    #[test]
    fn a_url_of_one_link_helper_is_fine() {
        let fine = "<a style=\"x\" href=\"{{app_link deep_link}}\" class='y'>{{title}}</a><a href='{{unsubscribe_link}}'>\
                    {{#each r}}<a href=\"{{graph_link this}}\">{{label}}</a>{{/each}}<img src=\"/static\"> href= {{x}}";
        assert_eq!(problems(fine), []);
    }
}
