//! The answer instead of a page.

use maud::{DOCTYPE, Markup, html};

/// It reveals nothing about these pages.
pub fn refused(why: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Not allowed" }
            }
            body {
                main {
                    h1 { "Not allowed" }
                    p { "Not allowed: " (why) "." }
                    p { "Open the address that the program printed in its terminal." }
                }
            }
        }
    }
}

/// The answer to the first request: it sets the cookie, and leads to the page without the token in its address. A
/// redirect would not do: it counts as a request of the page that began it, and the browser sends the cookie only for
/// requests of these pages.
pub fn entered(prefix: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(format!("0; url={prefix}"));
                title { "Config Weaver" }
                // Without this the browser requests one, without the cookie.
                link rel="icon" type="image/svg+xml" href={ (prefix) "icon.svg" };
            }
            body { p { a href=(prefix) { "Continue" } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_leads_on_without_the_token() {
        let page = entered("/p/").into_string();
        assert!(page.contains("content=\"0; url=/p/\"") && page.contains("<a href=\"/p/\">"), "{page}");
        assert!(!refused("no").into_string().contains("href"));
    }
}
