//! What mail clients need of a mail's HTML, checked on both shipped templates.

use super::*;

/// An element with the styles that are written on it.
struct Element<'a> {
    tag: &'a str,
    style: &'a str,
    /// What it is drawn on: its own background or that of the nearest one around it.
    background: Option<&'a str>,
    /// Whether it is shown at all.
    shown: bool,
}

/// Elements that have no end.
const VOID: [&str; 4] = ["meta", "br", "hr", "!doctype"];

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

fn rule<'a>(style: &'a str, name: &str) -> Option<&'a str> {
    style.split(';').find_map(|rule| rule.trim().strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Every element in the order of the text. Fails where an end does not fit its beginning.
fn elements(html: &str) -> Vec<Element<'_>> {
    let (mut all, mut open): (Vec<Element<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut rest = html;
    while let Some((_, from)) = rest.split_once('<') {
        let (tag, after) = match from.strip_prefix("!--") {
            Some(comment) => ("!--", comment.split_once("-->").unwrap().1),
            None => from.split_once('>').unwrap(),
        };
        rest = after;
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(ended) = name.strip_prefix('/') {
            let begun = open.pop().map(|index| all[index].tag);
            assert_eq!(begun, Some(ended), "ends before {}", after.chars().take(80).collect::<String>());
        } else if name != "!--" {
            let style = attribute(tag, "style").unwrap_or_default();
            let around = open.last().map(|index| &all[*index]);
            let background = rule(style, "background-color")
                .or(attribute(tag, "bgcolor"))
                .or(around.and_then(|around| around.background));
            let shown = around.is_none_or(|around| around.shown) && rule(style, "display") != Some("none");
            all.push(Element { tag: name, style, background, shown });
            if !VOID.contains(&name) {
                open.push(all.len() - 1);
            }
        }
    }
    assert!(open.is_empty(), "{} elements have no end", open.len());
    all
}

/// WCAG 2.2, relative luminance.
fn luminance(color: &str) -> f64 {
    let number = u32::from_str_radix(color.strip_prefix('#').unwrap(), 16).unwrap();
    let [_, channels @ ..] = number.to_be_bytes();
    let [red, green, blue] = channels.map(|channel| {
        let share = f64::from(channel) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

fn pages() -> impl Iterator<Item = (&'static str, String)> {
    TEMPLATES.iter().map(|(name, _)| (*name, mail(&example(name)).html))
}

#[test]
fn each_element_that_begins_ends_in_its_place() {
    for (name, html) in pages() {
        let all = elements(&html);
        assert!(all.len() > 20, "{name}");
        assert_eq!(all.iter().filter(|element| element.tag == "h1").count(), 1, "{name}");
    }
    let crossed = std::panic::catch_unwind(|| elements("<p><a></p></a>").len());
    assert!(crossed.is_err(), "the check itself can fail");
}

/// WCAG 2.2, 1.4.3 (AA).
#[test]
fn every_text_stands_out_from_what_it_is_drawn_on() {
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
    for (name, html) in pages() {
        let all = elements(&html);
        let colored: Vec<_> =
            all.iter().filter(|element| element.shown && rule(element.style, "color").is_some()).collect();
        assert!(colored.len() > 8, "{name}");
        for element in colored {
            let (text, ground) = (rule(element.style, "color").unwrap(), element.background.unwrap());
            let ratio = contrast(text, ground);
            assert!(ratio >= 4.5, "{name}: {text} on {ground} is {ratio:.2} to 1: <{}>", element.tag);
        }
    }
}

/// What Gmail drops or Outlook's Word engine does not know, and what loads from elsewhere.
#[test]
fn nothing_is_used_that_gmail_drops_or_outlook_does_not_know() {
    const STYLES: [(&str, &str); 10] = [
        ("position:", "Gmail drops it"),
        ("float:", "Outlook ignores it"),
        ("display:flex", "Outlook ignores it"),
        ("display:grid", "Outlook ignores it"),
        ("background-image", "Outlook ignores it, and it loads from elsewhere"),
        ("url(", "it loads from elsewhere"),
        ("var(", "Outlook drops the whole rule"),
        ("calc(", "Outlook drops the whole rule"),
        ("rgba(", "Outlook drops the whole rule"),
        (":-", "negative margins overlap or vanish"),
    ];
    const TAGS: [&str; 9] = ["style", "link", "script", "img", "form", "input", "svg", "video", "iframe"];
    for (name, html) in pages() {
        for element in elements(&html) {
            assert!(!TAGS.contains(&element.tag), "{name}: <{}>", element.tag);
            // The names of fonts begin with a hyphen too.
            let style: String =
                element.style.split(';').filter(|rule| !rule.starts_with("font-family")).collect();
            for (found, why) in STYLES {
                assert!(!style.contains(found), "{name}: {found} in <{}>: {why}", element.tag);
            }
            if element.tag == "body" {
                assert_eq!(rule(element.style, "background-color"), None, "Gmail drops it");
            }
        }
    }
}
