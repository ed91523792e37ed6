//! What mail clients need of a mail's HTML, checked on both shipped templates by the parser of a browser.

use std::collections::BTreeMap;

use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

use super::*;

/// How the reader's device is set.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scheme {
    /// Or not known: what is written inline holds.
    Dark,
    Light,
}

/// What `<style>` puts in the place of a class's inline rules: property and value.
type Light = BTreeMap<String, (String, String)>;

/// The colours that a text is drawn in.
#[derive(Debug, Clone, PartialEq)]
struct Colors {
    text: Option<String>,
    ground: Option<String>,
}

fn parsed(html: &str) -> RcDom {
    let options = ParseOpts::default();
    parse_document(RcDom::default(), options).one(html)
}

fn tag(node: &Handle) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => &name.local,
        _ => "",
    }
}

fn attribute(node: &Handle, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    attrs.borrow().iter().find(|it| &*it.name.local == name).map(|it| it.value.to_string())
}

/// The value of a property in the inline style.
fn rule(node: &Handle, property: &str) -> Option<String> {
    let style = attribute(node, "style")?;
    let rules = style.split(';').filter_map(|rule| rule.split_once(':'));
    rules.filter(|(name, _)| name.trim() == property).map(|(_, value)| value.trim().to_owned()).next_back()
}

fn text_of(node: &Handle) -> String {
    let children = node.children.borrow();
    let texts = children.iter().filter_map(|child| match &child.data {
        NodeData::Text { contents } => Some(contents.borrow().to_string()),
        _ => None,
    });
    texts.collect()
}

fn all(node: &Handle, found: &mut Vec<Handle>) {
    if !tag(node).is_empty() {
        found.push(node.clone());
    }
    node.children.borrow().iter().for_each(|child| all(child, found));
}

/// Of a document that lives: its end takes the children from every node.
fn elements(dom: &RcDom) -> Vec<Handle> {
    let mut found = Vec::new();
    all(&dom.document, &mut found);
    found
}

fn in_head(dom: &RcDom, node: &Handle) -> bool {
    let head = elements(dom).into_iter().find(|it| tag(it) == "head").unwrap();
    head.children.borrow().iter().any(|it| std::rc::Rc::ptr_eq(it, node))
}

/// Reads the one shape of rule that a mail's `<style>` may have.
fn light(dom: &RcDom) -> Light {
    let style = elements(dom).iter().find(|it| tag(it) == "style").map(text_of).unwrap();
    let media = style.trim().strip_prefix("@media (prefers-color-scheme: light) {").unwrap();
    let lines = media.strip_suffix('}').unwrap().trim().lines();
    lines
        .map(|line| {
            let (class, rest) = line.strip_prefix('.').unwrap().split_once(" { ").unwrap();
            let (property, value) = rest.strip_suffix(" !important; }").unwrap().split_once(": ").unwrap();
            (class.to_owned(), (property.to_owned(), value.to_owned()))
        })
        .collect()
}

/// The colour of `property` on `node` itself.
fn own(node: &Handle, property: &str, scheme: Scheme, light: &Light) -> Option<String> {
    let classes = attribute(node, "class").unwrap_or_default();
    let lit = classes.split(' ').filter_map(|class| light.get(class)).find(|(named, _)| named == property);
    match (scheme, lit) {
        (Scheme::Light, Some((_, value))) => Some(value.clone()),
        _ => rule(node, property),
    }
}

/// Every text that is shown, with the colours that it is drawn in.
fn texts(node: &Handle, scheme: Scheme, light: &Light, around: &Colors, found: &mut Vec<(String, Colors)>) {
    if ["head", "style"].contains(&tag(node)) || rule(node, "display").as_deref() == Some("none") {
        return;
    }
    let here = Colors {
        text: own(node, "color", scheme, light).or_else(|| around.text.clone()),
        ground: own(node, "background-color", scheme, light).or_else(|| around.ground.clone()),
    };
    let text = text_of(node).trim().to_owned();
    if !text.is_empty() {
        found.push((text, here.clone()));
    }
    node.children.borrow().iter().for_each(|child| texts(child, scheme, light, &here, found));
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

/// Mails of both templates: as in the examples, and of items as they hardly ever are.
fn mails() -> Vec<(String, String)> {
    let strange = [
        item_with("quote", Value::Null),
        item_with("episode_title", Value::Null),
        item_with("source", json!("auto")),
        item_with("source", json!("\"><script>alert(1)</script>")),
        item_with("t_ms", Value::Null),
        item_with(
            "quote",
            json!("</td></table> & \"<!-- ]]> <![endif]--> 'x'\n\n{{y}} \u{FFFD}\u{202E}עברית"),
        ),
        item_with("quote", json!("unbroken".repeat(400))),
        item_with("episode_title", json!("<style>*{}</style>&nbsp;&#0;")),
        item_with(
            "graph_refs",
            json!(vec![json!({"kind": "topic", "id": "topic:<&\">", "label": "</a><a href=x>"}); 60]),
        ),
    ];
    let examples = TEMPLATES.iter().map(|(name, _)| example(name));
    let mut envelopes: Vec<_> = examples.chain(strange.iter().flat_map(showing)).collect();
    envelopes.push(digest_of(strange.to_vec()));
    let name = |(index, envelope): (usize, &Value)| format!("{} {index}", envelope["template"]);
    envelopes.iter().enumerate().map(|it| (name(it), mail(it.1).html)).collect()
}

fn pages() -> Vec<(String, RcDom)> {
    mails().into_iter().map(|(name, html)| (name, parsed(&html))).collect()
}

#[test]
fn a_browsers_parser_finds_nothing_to_mend_and_every_end_is_written() {
    for (name, html) in mails() {
        let dom = parsed(&html);
        for tag in ["table", "tr", "td", "p", "a", "h1", "h2", "div"] {
            let begun = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
            assert_eq!(begun, html.matches(&format!("</{tag}>")).count(), "{name}: <{tag}>");
        }
        assert_eq!(*dom.errors.borrow(), Vec::<&str>::new(), "{name}");
        let headings = elements(&dom).iter().filter(|it| tag(it) == "h1").count();
        assert_eq!(headings, 1, "{name}");
    }
    let crossed = "<!doctype html><title>x</title><table><tr><td><p><b></p></table>";
    assert!(!parsed(crossed).errors.borrow().is_empty(), "the check itself can fail");
}

/// WCAG 2.2, 1.4.3 (AA), in both schemes.
#[test]
fn every_text_stands_out_from_what_it_is_drawn_on() {
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
    let nothing = Colors { text: None, ground: None };
    for (name, dom) in pages() {
        let light = light(&dom);
        let mut of_dark = Vec::new();
        for scheme in [Scheme::Dark, Scheme::Light] {
            let mut found = Vec::new();
            texts(&dom.document, scheme, &light, &nothing, &mut found);
            assert!(found.len() > 7, "{name}: {found:?}");
            for (text, Colors { text: color, ground }) in &found {
                let (color, ground) = (color.as_deref().unwrap(), ground.as_deref().unwrap());
                let ratio = contrast(color, ground);
                assert!(ratio >= 4.5, "{name}, {scheme:?}: {color} on {ground} is {ratio:.2} to 1: {text}");
            }
            match scheme {
                Scheme::Dark => of_dark = found,
                Scheme::Light => {
                    for ((text, dark), (_, light)) in of_dark.iter().zip(&found) {
                        assert!(
                            dark.text != light.text && dark.ground != light.ground,
                            "{name}: {text} stays"
                        );
                    }
                }
            }
        }
    }
}

/// A colour without its counterpart would be one of the dark on a light ground.
#[test]
fn each_colour_has_one_for_the_light_and_each_class_is_used() {
    let mut unused: Vec<String> = light(&parsed(&mail(&digest()).html)).into_keys().collect();
    for (name, dom) in pages() {
        let light = light(&dom);
        for element in elements(&dom) {
            let classes = attribute(&element, "class").unwrap_or_default();
            unused.retain(|class| !classes.split(' ').any(|used| used == class));
            assert!(
                classes.split(' ').all(|class| class.is_empty() || light.contains_key(class)),
                "{name}: {classes}"
            );
            let style = attribute(&element, "style").unwrap_or_default();
            for (property, value) in style.split(';').filter_map(|rule| rule.split_once(':')) {
                if value.contains('#') {
                    let wanted = if property.starts_with("border") { "border-color" } else { property };
                    let lit =
                        classes.split(' ').filter_map(|class| light.get(class)).any(|(it, _)| it == wanted);
                    assert!(lit, "{name}: {property}:{value} of <{}> has no class", tag(&element));
                }
            }
            assert_eq!(
                attribute(&element, "bgcolor"),
                rule(&element, "background-color").filter(|_| tag(&element) != "a")
            );
        }
    }
    assert_eq!(unused, Vec::<String>::new());
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
    const TAGS: [&str; 8] = ["link", "script", "img", "form", "input", "svg", "video", "iframe"];
    for (name, dom) in pages() {
        let all = elements(&dom);
        // Gmail drops a style element of more than 8,192 bytes, and one outside the head.
        let styles: Vec<_> = all.iter().filter(|it| tag(it) == "style").collect();
        assert_eq!(styles.len(), 1, "{name}");
        assert!(text_of(styles[0]).len() < 8192 && in_head(&dom, styles[0]), "{name}");
        for element in all {
            let tag = tag(&element);
            assert!(!TAGS.contains(&tag), "{name}: <{tag}>");
            // The names of fonts begin with a hyphen too.
            let style = attribute(&element, "style").unwrap_or_default();
            let style: String = style.split(';').filter(|rule| !rule.starts_with("font-family")).collect();
            for (found, why) in STYLES {
                assert!(!style.contains(found), "{name}: {found} in <{tag}>: {why}");
            }
            if tag == "body" {
                assert_eq!(rule(&element, "background-color"), None, "Gmail drops it");
            }
        }
    }
}

/// What a finger can hit: 44 px high (WCAG 2.5.5), of the line and what is around it.
#[test]
fn every_link_is_large_enough_for_a_finger() {
    let pixels = |node: &Handle, name: &str| {
        rule(node, name)
            .and_then(|value| value.split_whitespace().next()?.strip_suffix("px")?.parse::<u32>().ok())
    };
    for (name, dom) in pages() {
        let links: Vec<_> = elements(&dom).into_iter().filter(|it| tag(it) == "a").collect();
        assert!(links.len() > 3, "{name}");
        for link in links {
            assert_eq!(rule(&link, "display").as_deref(), Some("inline-block"), "{name}: {}", text_of(&link));
            // Where a link does not say its line's height, its paragraph's 20 px hold.
            let height = pixels(&link, "line-height").unwrap_or(20)
                + 2 * pixels(&link, "padding").unwrap_or(0)
                + 2 * pixels(&link, "border").unwrap_or(0);
            assert!(height >= 44, "{name}: {height} px: {}", text_of(&link));
        }
    }
}

/// Lines of our own: those of a reader's text are their app's to break.
#[test]
fn the_text_part_is_readable_in_a_window_of_80_columns() {
    for (name, _) in TEMPLATES {
        let text = mail(&example(name)).text;
        assert!(text.contains("\n====") && text.ends_with('\n') && !text.contains("\n\n\n\n"), "{text}");
        for (line, next) in text.lines().zip(text.lines().skip(1)) {
            let of_the_reader = line.contains('“') || line.contains('”');
            assert!(
                of_the_reader || line.starts_with("http") || line.chars().count() <= 78,
                "{name}: {line}"
            );
            assert!(!line.starts_with("http") || next.is_empty(), "{name}: {next} stands below a link");
            assert_eq!(line.trim_end(), line, "{name}");
        }
        let alone = text.split_whitespace().filter(|word| word.contains("://"));
        assert!(alone.into_iter().all(|link| text.lines().any(|line| line == link)), "{name}: {text}");
    }
}
