//! What is the same in every message is worked out once: a theme's words become text of the template.
//!
//! Owns [`fold`]. A mail names some forty values of the theme for each item, and a call of a helper costs more than
//! all the text around it. It must change no byte of what is rendered.

use handlebars::Template;
use handlebars::template::{HelperTemplate, Parameter, TemplateElement, TemplateMapping};
use serde_json::Value;

use super::helpers::THEME;
use super::theme::Theme;

/// What the theme says is written, `escape`d, into the text of `template`, and given to helpers as it is.
pub(super) fn fold(template: &mut Template, theme: &Theme, escape: fn(&str) -> String) {
    let elements = std::mem::take(&mut template.elements);
    let mut places = std::mem::take(&mut template.mapping).into_iter();
    for element in elements {
        let place = places.next();
        match element {
            TemplateElement::RawString(text) => write(template, &text, place),
            TemplateElement::Expression(it) => match said(&it, theme) {
                Some(value) => write(template, &escape(value), place),
                None => push(template, TemplateElement::Expression(it), place),
            },
            other => push(template, other, place),
        }
    }
    template.elements.iter_mut().for_each(|element| within(element, theme, escape));
}

fn push(template: &mut Template, element: TemplateElement, place: Option<TemplateMapping>) {
    template.elements.push(element);
    template.mapping.extend(place);
}

/// Text after text is one text.
fn write(template: &mut Template, text: &str, place: Option<TemplateMapping>) {
    match template.elements.last_mut() {
        Some(TemplateElement::RawString(before)) => before.push_str(text),
        _ => push(template, TemplateElement::RawString(text.to_owned()), place),
    }
}

/// The value that a call comes to, if it is one of the theme alone.
fn said<'a>(it: &HelperTemplate, theme: &'a Theme) -> Option<&'a str> {
    match (it.name.as_name(), it.params.as_slice()) {
        (Some(THEME), [Parameter::Literal(Value::String(name))]) if it.hash.is_empty() => theme.get(name),
        _ => None,
    }
}

fn within(element: &mut TemplateElement, theme: &Theme, escape: fn(&str) -> String) {
    match element {
        TemplateElement::Expression(it) | TemplateElement::HelperBlock(it) => {
            it.params.iter_mut().chain(it.hash.values_mut()).for_each(|given| argument(given, theme));
            for inner in it.template.iter_mut().chain(&mut it.inverse) {
                fold(inner, theme, escape);
            }
        }
        TemplateElement::PartialExpression(it) | TemplateElement::PartialBlock(it) => {
            it.params.iter_mut().chain(it.hash.values_mut()).for_each(|given| argument(given, theme));
            if let Some(inner) = &mut it.template {
                fold(inner, theme, escape);
            }
        }
        _ => {}
    }
}

fn argument(given: &mut Parameter, theme: &Theme) {
    let Parameter::Subexpression(it) = given else { return };
    let TemplateElement::Expression(call) = &mut *it.element else { return };
    match said(call, theme) {
        Some(value) => *given = Parameter::Literal(Value::String(value.to_owned())),
        None => call.params.iter_mut().chain(call.hash.values_mut()).for_each(|given| argument(given, theme)),
    }
}
