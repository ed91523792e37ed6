//! What is the same in every message is worked out once: a theme's words become text of the template.
//!
//! Owns [`fold`]. A mail names a dozen values of the theme and more for each item, and each would be a call of
//! a helper. It must change no byte of what is rendered.

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

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    #[test]
    fn what_the_theme_says_becomes_text_and_all_else_stays() {
        let theme = Theme::read("[words]\nhello = \"Hello {}\"\nboth = \"a & b\"\n", "").unwrap();
        let mut template = Template::compile(
            "1{{theme \"words.both\"}}2{{theme \"words.hello\" name}}{{#if name}}{{theme \"words.both\"}}{{/if}}\
             {{line (theme \"words.both\")}}{{line (line (theme \"words.both\"))}}",
        )
        .unwrap();
        fold(&mut template, &theme, text::escape_html);

        let both = Parameter::Literal(Value::from("a & b"));
        let [text, hello, block, line, lines] = template.elements.as_slice() else {
            panic!("{:#?}", template.elements)
        };
        assert_eq!(*text, TemplateElement::RawString("1a &amp; b2".to_owned()));
        assert!(matches!(hello, TemplateElement::Expression(it) if it.params.len() == 2), "{hello:?}");
        let TemplateElement::HelperBlock(block) = block else { panic!("{block:?}") };
        let inner = &block.template.as_ref().unwrap().elements;
        assert_eq!(*inner, [TemplateElement::RawString("a &amp; b".to_owned())]);
        let TemplateElement::Expression(line) = line else { panic!("{line:?}") };
        assert_eq!(line.params, std::slice::from_ref(&both), "given as it is: what takes it escapes");
        let TemplateElement::Expression(lines) = lines else { panic!("{lines:?}") };
        let Parameter::Subexpression(within) = &lines.params[0] else { panic!("{lines:?}") };
        assert_eq!(within.params().unwrap(), &[both]);
        assert_eq!(template.mapping.len(), template.elements.len(), "each element keeps its line");
    }
}
