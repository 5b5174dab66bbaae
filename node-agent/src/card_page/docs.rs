//! The documentation of this build, for a browser without a network. Pure.
//!
//! A page's address ends like its path below `docs/`, so that the links of its Markdown work. Its pictures are not in
//! the program: their descriptions replace them.

use maud::{PreEscaped, html};
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};
use weaver_book::{PARTS, Page};

use crate::publish::html::whole;

pub fn contents() -> String {
    let content = html! {
        h1 { "Documentation" }
        @for (part, pages) in PARTS {
            @if !part.is_empty() { h2 { (part) } }
            ul { @for page in *pages { li { a href={ "/docs/" (page.path) } { (page.title) } } } }
        }
    };
    whole("Documentation", None, &content, &html! { p { a href="/" { "This node" } } }).into_string()
}

pub fn page(page: &Page) -> String {
    let mut events: Vec<_> = Parser::new_ext(page.text, Options::ENABLE_TABLES).flat_map(shown).collect();
    name_headings(&mut events);
    let mut text = String::new();
    push_html(&mut text, events.into_iter());
    let footer = html! { p { a href="/docs/" { "All pages" } " · " a href="/" { "This node" } } };
    whole(page.title, None, &PreEscaped(text), &footer).into_string()
}

/// How a part is rendered: tables and commands can be scrolled, by keys too; HTML becomes text.
fn shown(event: Event<'_>) -> impl Iterator<Item = Event<'_>> {
    let markup = |text: &'static str| Event::Html(CowStr::Borrowed(text));
    let [first, second] = match event {
        // Notes for the authors of the pages.
        Event::Html(text) if text.starts_with("<!--") => [None, None],
        Event::InlineHtml(text) if *text == *"<br>" => [Some(Event::HardBreak), None],
        Event::Html(text) | Event::InlineHtml(text) => [Some(Event::Text(text)), None],
        Event::Start(Tag::CodeBlock(_)) => [Some(markup("<pre tabindex=\"0\"><code>")), None],
        Event::End(TagEnd::CodeBlock) => [Some(markup("</code></pre>\n")), None],
        // Aligned, its cells would have styles of their own, which the page's policy forbids.
        Event::Start(Tag::Table(of)) => [
            Some(markup("<div class=\"scroll\" tabindex=\"0\">")),
            Some(Event::Start(Tag::Table(vec![Alignment::None; of.len()]))),
        ],
        Event::End(TagEnd::Table) => [Some(Event::End(TagEnd::Table)), Some(markup("</div>\n"))],
        Event::Start(Tag::Image { .. }) => [Some(Event::Start(Tag::Emphasis)), None],
        Event::End(TagEnd::Image) => [Some(Event::End(TagEnd::Emphasis)), None],
        other => [Some(other), None],
    };
    first.into_iter().chain(second)
}

/// Gives each heading the anchor that links use, which is that of mdBook and of GitHub.
fn name_headings(events: &mut [Event<'_>]) {
    let mut heading = None;
    let mut name = String::new();
    for at in 0..events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => (heading, name) = (Some(at), String::new()),
            Event::Text(text) | Event::Code(text) if heading.is_some() => {
                name.extend(text.chars().filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || "-_".contains(c) => Some(c.to_ascii_lowercase()),
                    _ => None,
                }));
            }
            Event::End(TagEnd::Heading(_)) => {
                let begin = heading.take().and_then(|at| events.get_mut(at));
                if let Some(Event::Start(Tag::Heading { id, .. })) = begin {
                    *id = Some(std::mem::take(&mut name).into());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Component, PathBuf};

    use weaver_book::pages;
    use weaver_diagnostics::finding::Code;

    use super::*;

    fn made(text: &'static str) -> String {
        page(&Page { path: "a.md", title: "T", text })
    }

    #[test]
    fn markdown_is_shown_with_tables_that_scroll_and_without_html_of_its_own() {
        let page = made(
            "# A `b`, c\n\n<script>x</script>\n\n| a |\n|--:|\n| <img> |\n\n![of it](x.svg)\n\n```sh run\nls -l\n```\n",
        );
        for part in [
            "<h1 id=\"a-b-c\">A <code>b</code>, c</h1>",
            "&lt;script&gt;",
            "<div class=\"scroll\" tabindex=\"0\"><table>",
            "&lt;img&gt;",
            "<em>of it</em>",
            "<pre tabindex=\"0\"><code>ls -l\n</code></pre>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("style="), "{page}");
    }

    /// The targets of the links on a page.
    fn links(text: &str) -> impl Iterator<Item = &str> {
        text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn each_link_of_each_page_leads_to_a_page_and_a_heading() {
        assert_eq!(links(&contents()).filter(|link| link.starts_with("/docs/")).count(), pages().count());
        for from in pages() {
            let text = page(from);
            assert!(!text.contains("&lt;!--") && !text.contains("&lt;br"), "{}", from.path);
            let within = links(&text).filter(|link| !link.contains("://") && !link.starts_with('/'));
            // The schemas are for programs, which have a network.
            for link in within.filter(|link| !link.starts_with("../schema/")) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let path = if path.is_empty() { from.path.to_owned() } else { resolved(from.path, path) };
                let target = pages().find(|page| page.path == path);
                let target = page(target.unwrap_or_else(|| panic!("{}: {link}", from.path)));
                let id = format!(" id=\"{heading}\"");
                assert!(heading.is_empty() || target.contains(&id), "{}: {link}", from.path);
            }
        }
    }

    fn resolved(from: &str, link: &str) -> String {
        let mut path = PathBuf::from(from);
        path.pop();
        for part in PathBuf::from(link).components() {
            if part == Component::ParentDir { assert!(path.pop()) } else { path.push(part) }
        }
        path.to_string_lossy().into_owned()
    }

    #[test]
    fn each_code_has_a_heading() {
        let codes = page(pages().find(|page| page.path == "reference/codes.md").unwrap());
        for code in Code::ALL {
            let id = format!(" id=\"{}-{}\"", code.id().to_lowercase(), code.row().name);
            assert!(codes.contains(&id), "{id}");
        }
    }
}
