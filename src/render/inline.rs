//! Partials are put where they are called, once, when a set is compiled.
//!
//! Owns [`inline`] and [`Called`], the helper that stands in a call's place. handlebars-rs copies the data that a partial
//! sees at each call, and within one whatever is looked up. Put in its caller's place a partial reads the data
//! where they lie, and `../` leads out of the caller's block, as it does in handlebars.js.

use std::collections::HashMap;

use handlebars::template::{DecoratorTemplate, HelperTemplateBuilder, Parameter, TemplateElement};
use handlebars::{
    BlockContext, BlockParamHolder, Context, Handlebars, Helper, HelperDef, HelperResult, Output,
    PathAndJson, RenderContext, Renderable, Template,
};

use super::inspect::PARTIAL_BLOCK;

/// The helper's name, which no file can say.
const CALLED: &str = "> ";

/// Puts the `partials`, each named by its file, into `template`, which stands in `file`. None of them may include itself.
pub(super) fn inline(template: &mut Template, file: &str, partials: &HashMap<String, Template>) {
    Inliner { file, partials, block: None }.put_into(template);
}

/// Adds what stands in a call's place.
pub(super) fn register(registry: &mut Handlebars<'static>) {
    registry.register_helper(CALLED, Box::new(Called));
}

struct Inliner<'a> {
    file: &'a str,
    partials: &'a HashMap<String, Template>,
    /// What `@partial-block` is here.
    block: Option<&'a Template>,
}

impl Inliner<'_> {
    fn put_into(&self, template: &mut Template) {
        for element in &mut template.elements {
            match element {
                TemplateElement::HelperBlock(it) => {
                    it.template.iter_mut().chain(&mut it.inverse).for_each(|inner| self.put_into(inner));
                }
                TemplateElement::PartialExpression(call) | TemplateElement::PartialBlock(call) => {
                    match self.called(call).and_then(|called| in_place_of(call, called)) {
                        Some(in_place) => *element = in_place,
                        None => call.template.iter_mut().for_each(|otherwise| self.put_into(otherwise)),
                    }
                }
                _ => {}
            }
        }
    }

    /// What is called, whole. `None` for a block that nobody gives, which handlebars knows what to say about.
    fn called(&self, call: &DecoratorTemplate) -> Option<Template> {
        let name = call.name.as_name()?;
        if name == PARTIAL_BLOCK {
            return self.block.cloned();
        }
        let mut called = self.partials.get(name)?.clone();
        let block = call.template.clone().map(|mut block| {
            // An error in it is one of the caller's file.
            block.name = Some(self.file.to_owned());
            self.put_into(&mut block);
            block
        });
        let file = called.name.clone().unwrap_or_default();
        Inliner { file: &file, partials: self.partials, block: block.as_ref() }.put_into(&mut called);
        Some(called)
    }
}

fn in_place_of(call: &DecoratorTemplate, called: Template) -> Option<TemplateElement> {
    let mut helper = HelperTemplateBuilder::default();
    helper.name(Parameter::Name(CALLED.to_owned())).params(call.params.clone()).hash(call.hash.clone());
    helper.template(called).block(true).chain(false).indent_before_write(false);
    Some(TemplateElement::HelperBlock(Box::new(helper.build().ok()?)))
}

/// Renders what is called: with the first argument as its `this`, if there is one, and the named ones as names.
struct Called;

impl HelperDef for Called {
    fn call<'reg: 'rc, 'rc>(
        &self,
        h: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        context: &'rc Context,
        rc: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let Some(called) = h.template() else { return Ok(()) };
        let around = (!h.hash().is_empty()).then(|| rc.block().cloned()).flatten();
        if let Some(given) = h.param(0) {
            rc.push_block(block_of(given, rc.block()));
        }
        if let Some(block) = rc.block_mut() {
            for (name, given) in h.hash() {
                block.set_block_param(name, BlockParamHolder::Value(given.value().clone()));
            }
        }
        called.render(registry, context, rc, out)?;
        if h.param(0).is_some() {
            rc.pop_block();
        }
        if let (Some(around), Some(block)) = (around, rc.block_mut()) {
            *block = around;
        }
        Ok(())
    }
}

/// As `with` makes it: what it is about is read where it lies, if it lies in the data.
fn block_of<'rc>(given: &PathAndJson<'rc>, parent: Option<&BlockContext<'rc>>) -> BlockContext<'rc> {
    let mut block = BlockContext::new();
    match given.context_path() {
        Some(path) => block.base_path_mut().clone_from(path),
        None => block.set_base_value(given.value().clone()),
    }
    if let Some(parent) = parent {
        block.local_variables_mut().clone_from(parent.local_variables());
    }
    block
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PARTIALS: [(&str, &str); 5] = [
        ("name", "<{{name}}>"),
        ("list", "{{#each items}}{{@index}}{{> name}}{{else}}none{{/each}}"),
        ("frame", "[{{title}}|{{> @partial-block}}|{{#if lead}}{{lead.name}}{{/if}}]"),
        ("twice", "{{> @partial-block}}{{#> frame title=\"in\" lead=null}}{{> @partial-block}}{{/frame}}"),
        ("optional", "{{#> @partial-block}}({{> name}}){{/@partial-block}}"),
    ];

    fn registry() -> Handlebars<'static> {
        let mut registry = Handlebars::new();
        registry.set_strict_mode(true);
        registry.set_prevent_indent(true);
        register(&mut registry);
        registry
    }

    fn as_handlebars_does(page: &str, data: &Value) -> String {
        let mut registry = registry();
        for (name, source) in PARTIALS {
            registry.register_template_string(name, source).unwrap();
        }
        registry.render_template(page, data).unwrap()
    }

    fn compiled(page: &str) -> Handlebars<'static> {
        let mut registry = registry();
        for (name, source) in PARTIALS {
            registry.register_template_string(name, source).unwrap();
        }
        registry.register_template_string("page", page).unwrap();
        let mut partials = registry.get_templates().clone();
        partials.values_mut().for_each(|it| it.name = it.name.take().map(|name| format!("partials/{name}")));
        let mut page = partials.remove("page").unwrap();
        inline(&mut page, "page", &partials);
        registry.clear_templates();
        registry.register_template("page", page);
        registry
    }

    fn inlined(page: &str, data: &Value) -> String {
        compiled(page).render("page", data).unwrap()
    }

    #[test]
    fn in_its_callers_place_a_partial_renders_as_handlebars_renders_it() {
        let data = json!({
            "name": "top", "items": [{"name": "a", "items": []}, {"name": "b", "items": [{"name": "c", "items": []}]}],
        });
        for (page, rendered) in [
            ("{{> name}} {{#with items.[0]}}{{> name}}{{/with}}", "<top> <a>"),
            ("{{> list}}", "0<a>1<b>"),
            ("{{#each items}}{{@index}}{{> list}}{{/each}}", "0none10<c>"),
            ("{{> name items.[1]}}{{> list items.[1]}}{{> name}}", "<b>0<c><top>"),
            ("{{> name name=\"n\"}}{{> name}}", "<n><top>"),
            ("{{> list items.[1] name=\"n\"}}{{name}}", "0<n>top"),
            (
                "{{#> frame title=name lead=items.[0]}}{{title}} {{> list}} {{lead.name}}{{/frame}}",
                "[top|top 0<a>1<b> a|a]",
            ),
            (
                "{{#each items}}{{#> frame title=@index lead=this}}{{#if @first}}first{{/if}}{{/frame}}{{/each}}",
                "[0|first|a][1||b]",
            ),
            ("{{#> twice}}{{> name}}{{/twice}}", "<top>[in|<top>|]"),
            (
                "{{#> frame title=1 lead=null}}{{#> frame title=2 lead=null}}{{title}}{{/frame}}{{/frame}}",
                "[1|[2|2|]|]",
            ),
            ("{{#> optional}}given{{/optional}}{{> optional}}", "given(<top>)"),
        ] {
            assert_eq!(inlined(page, &data), rendered, "{page}");
            assert_eq!(as_handlebars_does(page, &data), rendered, "{page}");
        }
    }

    #[test]
    fn an_error_is_one_of_the_file_and_line_that_it_stands_in() {
        for (page, file, line) in [
            ("a\n{{#each items}}\n{{> name}}{{/each}}", "partials/name", 1),
            ("a\n{{#> frame title=1 lead=null}}\n{{nothing}}{{/frame}}", "page", 3),
            ("a\n{{#> frame title=1 lead=null}}\n{{> name}}{{/frame}}{{x}}", "partials/name", 1),
            ("a\n{{> frame title=1 lead=null}}", "partials/frame", 1),
            ("a\n{{> name}}", "partials/name", 1),
            ("a\n{{> name x}}", "partials/name", 1),
        ] {
            let error = compiled(page).render("page", &json!({"items": [{}]})).unwrap_err();
            assert_eq!(
                (error.template_name.as_deref(), error.line_no),
                (Some(file), Some(line)),
                "{page}: {error}"
            );
        }
    }
}
