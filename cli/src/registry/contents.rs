//! The contents of a registry: repositories, tags, and the platforms of an image.

use serde::Serialize;
use serde_json::Value;
use weaver_diagnostics::registry::api::{self, ImageManifest, ImageReference};
use weaver_diagnostics::registry::check::ImageAvailability;

use super::client::{Client, RegistryResponse};

/// Of 100 names each, where the registry honours the page size.
const MOST_PAGES: usize = 10;
/// Names that are kept.
const MOST_NAMES: usize = 1000;

/// A list that may be cut.
#[derive(Default)]
pub struct NameList {
    pub names: Vec<String>,
    pub is_all: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    pub name: String,
    pub tags: Vec<String>,
    /// There are no more tags.
    pub complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why there is no list.
pub enum NoList {
    Missing,
    Other(String),
}

pub async fn catalogue(client: &Client) -> Result<NameList, NoList> {
    pages(client, api::CATALOGUE.to_owned(), api::repositories, MOST_PAGES).await
}

/// A repository with its tags; `pages` is how many pages of them are read.
pub async fn repository(client: &Client, name: &str, is_alone: bool) -> Result<Repository, NoList> {
    let most = if is_alone { MOST_PAGES } else { 1 };
    let tags = pages(client, api::tags_path(name), api::tags, most).await?;
    Ok(Repository { name: name.to_owned(), tags: tags.names, complete: tags.is_all, error: None })
}

async fn pages(
    client: &Client,
    first: String,
    read: fn(&[u8]) -> Result<Vec<String>, &'static str>,
    most: usize,
) -> Result<NameList, NoList> {
    let origin = client.origin();
    let mut found = NameList::default();
    let mut path = first;
    for _ in 0..most {
        let answer = client.get(&path, "application/json").await.map_err(NoList::Other)?;
        match answer.status {
            200 => {}
            404 => return Err(NoList::Missing),
            status => return Err(NoList::Other(said(status, &answer))),
        }
        found.names.extend(read(&answer.body).map_err(|why| NoList::Other(why.to_owned()))?);
        let link = answer.link();
        match link.and_then(|link| api::next_page(link, &origin)) {
            _ if found.names.len() >= MOST_NAMES => break,
            Some(next) if next != path => path = next,
            // One of another host is not followed, and so is more than this.
            _ => {
                found.is_all = link.is_none();
                break;
            }
        }
    }
    found.names.truncate(MOST_NAMES);
    Ok(found)
}

/// The status, and the registry's message.
fn said(status: u16, answer: &RegistryResponse) -> String {
    let code = serde_json::from_slice::<Value>(&answer.body).ok();
    let code = code.as_ref().and_then(|body| body.pointer("/errors/0/code")?.as_str());
    let is_plain = |code: &&str| code.len() < 40 && code.bytes().all(|c| c.is_ascii_uppercase() || c == b'_');
    let code = code.filter(is_plain).map_or_else(String::new, |code| format!(" ({code})"));
    format!("the registry answers {status}{code}")
}

/// For which machines an image is built.
pub async fn build(client: &Client, image: &ImageReference) -> ImageAvailability {
    let answer = match client.get(&image.path(), api::MANIFESTS).await {
        Ok(answer) => answer,
        Err(why) => return ImageAvailability::Unknown(why),
    };
    match answer.status {
        200 => {}
        401 | 403 => return ImageAvailability::Denied,
        404 => return ImageAvailability::Missing,
        status => return ImageAvailability::Unknown(said(status, &answer)),
    }
    let config = match api::manifest(&answer.body) {
        Ok(ImageManifest::Index(platforms)) => return ImageAvailability::For(platforms),
        Ok(ImageManifest::Image { config }) => config,
        Err(why) => return ImageAvailability::Unusable(why.to_owned()),
    };
    let path = format!("/v2/{}/blobs/{config}", image.repository);
    match client.get(&path, "*/*").await {
        Ok(answer) if answer.status == 200 => match api::built_for(&answer.body) {
            Some(platform) => ImageAvailability::For(vec![platform]),
            None => ImageAvailability::Unknown("its image configuration has no platform".to_owned()),
        },
        Ok(answer) if (300..400).contains(&answer.status) => {
            ImageAvailability::Unknown("its configuration is on another host, which is not asked".to_owned())
        }
        Ok(answer) => ImageAvailability::Unusable(format!(
            "its configuration is missing: {}",
            said(answer.status, &answer)
        )),
        Err(why) => ImageAvailability::Unknown(why),
    }
}
