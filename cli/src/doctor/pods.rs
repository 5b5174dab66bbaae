//! Pods whose image cannot be pulled or does not run here, and why: by what the kubelet reports in their status, else
//! by their last event, else by the container's last message.
//!
//! The owner of a pod controls its messages: they are only ever recognised as a problem with images, and quoted. What is
//! to be done is that of the code: no command is made from what a pod says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt as _};
use weaver_diagnostics::finding::{Code, Finding, Place, Severity};
use weaver_diagnostics::finding_text::cut;
use weaver_diagnostics::recognise::Recogniser;
use weaver_diagnostics::tokens::without_secrets;

use super::ask::{asked, each_page};

/// The kubelet's reason for an image whose name is no name, and for a container that ended.
const INVALID_NAME: &str = "InvalidImageName";
const ENDED: &str = "CrashLoopBackOff";
/// The kubelet's reasons for a container whose image is not there.
const NOT_PULLED: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    INVALID_NAME,
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];
/// What it may be.
const OF_IMAGES: [Code; 8] = [
    Code::RegistryPlainHttp,
    Code::ImageWithoutRegistry,
    Code::ImageForOtherProcessor,
    Code::ImageNotFound,
    Code::ImagePullsLimited,
    Code::RegistryUnreachable,
    Code::RegistryAccessDenied,
    Code::RegistryCertificateUntrusted,
];
/// What a container itself may say of its image before it ends: its last line is any text.
const OF_PROGRAMS: [Code; 1] = [Code::ImageForOtherProcessor];
/// Exit code of a container whose program is for another processor.
const NO_SUCH_FORMAT: i32 = 255;
/// The most pods for which more is requested, and which one finding names.
const ASKED: usize = 5;
/// Characters of what is quoted.
const LONGEST: usize = 1_000;

/// A container that does not start because of its image.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stuck {
    namespace: String,
    pod: String,
    container: String,
    /// The kubelet's reason.
    reason: String,
    message: String,
}

impl Stuck {
    /// Whether it is the kubelet that says why. Of a name that is not valid it only repeats the name.
    fn is_said(&self) -> bool {
        self.reason != INVALID_NAME
    }

    /// What its message may be.
    fn codes(&self) -> &'static [Code] {
        match self.reason.as_str() {
            INVALID_NAME => &[],
            ENDED => &OF_PROGRAMS,
            _ => &OF_IMAGES,
        }
    }

    fn place(&self) -> Place {
        Place::file(format!("pod {}/{}, container {}", self.namespace, self.pod, self.container))
    }
}

/// Findings on pods that cannot get their images.
pub async fn look(client: &Client) -> Vec<Finding> {
    let api: Api<Pod> = Api::all(client.clone());
    let params = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let (mut stuck, mut ended): (Vec<Stuck>, Vec<Stuck>) = (Vec::new(), Vec::new());
    let listed = each_page("listing pods", api, params, |page| {
        if page.is_first {
            stuck.clear();
            ended.clear();
        }
        stuck.extend(page.items.iter().flat_map(not_pulled));
        ended.extend(page.items.iter().flat_map(of_other_format));
        ended.truncate(ASKED);
    });
    match listed.await {
        Ok(()) => {}
        // A tenant may not list pods, and does not need to; an API server without pods has none that wait.
        Err(finding) if matches!(finding.code, Code::RightsMissingForCheck | Code::DefinitionDiffers) => {
            return Vec::new();
        }
        Err(finding) => return vec![*finding],
    }
    let Ok(recogniser) = Recogniser::new() else { return Vec::new() };
    let open = stuck.iter_mut().filter(|one| one.is_said() && recognised(&recogniser, one).is_none());
    for one in open.take(ASKED) {
        if let Some(message) = last_event(client, one).await {
            one.message = message;
        }
    }
    for one in ended {
        let Some(message) = last_message(client, &one).await else { continue };
        let said = Stuck { message, ..one };
        if recognised(&recogniser, &said).is_some() {
            stuck.push(said);
        }
    }
    judge(&recogniser, &stuck)
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        [&status.init_container_statuses, &status.container_statuses].into_iter().flatten().flatten()
    })
}

fn stuck(pod: &Pod, container: &ContainerStatus, reason: &str, message: &str) -> Stuck {
    Stuck {
        namespace: pod.namespace().unwrap_or_default(),
        pod: pod.name_any(),
        container: container.name.clone(),
        reason: reason.to_owned(),
        // Of more nothing is used, and there may be very many pods.
        message: message.chars().take(LONGEST + 1).collect(),
    }
}

/// Its containers that wait for their images.
fn not_pulled(pod: &Pod) -> Vec<Stuck> {
    let waiting = statuses(pod).filter_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| NOT_PULLED.contains(reason))?;
        Some(stuck(pod, container, reason, waiting.message.as_deref().unwrap_or_default()))
    });
    waiting.collect()
}

/// Its containers that end at once with the exit code of an image for another processor.
fn of_other_format(pod: &Pod) -> Vec<Stuck> {
    let ended = statuses(pod).filter_map(|container| {
        let waits = container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
        let last = container.last_state.as_ref()?.terminated.as_ref()?;
        let is_it = waits == ENDED && last.exit_code == NO_SUCH_FORMAT;
        is_it.then(|| stuck(pod, container, waits, ""))
    });
    ended.collect()
}

/// Why the last pull failed. A kubelet that waits before the next pull may report only that it waits.
async fn last_event(client: &Client, one: &Stuck) -> Option<String> {
    let api: Api<Event> = Api::namespaced(client.clone(), &one.namespace);
    let params = ListParams::default().fields(&format!("involvedObject.name={},reason=Failed", one.pod));
    let mut last = None;
    let listed = each_page("listing events", api, params, |page| {
        let mut messages = page.items.into_iter().filter_map(|event| event.message);
        let failed = messages.rfind(|message| message.starts_with("Failed to pull image"));
        last = failed.or_else(|| last.take());
    });
    listed.await.ok()?;
    last
}

/// The container's last message before it ended.
async fn last_message(client: &Client, one: &Stuck) -> Option<String> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &one.namespace);
    let container = Some(one.container.clone());
    let params = LogParams { container, previous: true, tail_lines: Some(1), ..LogParams::default() };
    asked("reading a log", api.logs(&one.pod, &params)).await.ok()
}

/// Its cause, where it is one of images; with the remedy of its code.
fn recognised(recogniser: &Recogniser, one: &Stuck) -> Option<Finding> {
    let found = recogniser.judge(cut(&one.message, LONGEST).as_bytes(), || one.place())?;
    let message = if one.reason == ENDED { found.code.title().to_owned() } else { found.message };
    one.codes().contains(&found.code).then(|| {
        let mut finding = Finding::new(found.code, message);
        finding.evidence = found.evidence;
        finding
    })
}

/// A finding each cause, with the pods that have it.
fn judge(recogniser: &Recogniser, stuck: &[Stuck]) -> Vec<Finding> {
    let mut causes: BTreeMap<(&'static str, String), (Finding, Vec<&Stuck>)> = BTreeMap::new();
    for one in stuck {
        let finding = recognised(recogniser, one).unwrap_or_else(|| unknown(one));
        let cause = (finding.code.id(), finding.message.clone());
        causes.entry(cause).or_insert_with(|| (finding, Vec::new())).1.push(one);
    }
    causes.into_values().map(|(finding, pods)| named(finding, &pods)).collect()
}

fn unknown(one: &Stuck) -> Finding {
    let message = match one.reason.as_str() {
        INVALID_NAME => "the name of the image is not valid",
        "ErrImageNeverPull" => "imagePullPolicy is Never, and the node does not have the image",
        _ => "the kubelet could not pull the image",
    };
    let finding = Finding::new(Code::ImageNotPulled, message);
    finding.saw(
        one.place(),
        if one.is_said() {
            format!("{}: {}", one.reason, without_secrets(&cut(&one.message, LONGEST)))
        } else {
            one.reason.clone()
        },
    )
}

fn named(mut finding: Finding, pods: &[&Stuck]) -> Finding {
    let mut names: Vec<String> = pods.iter().map(|one| format!("{}/{}", one.namespace, one.pod)).collect();
    names.dedup();
    let more = names.len().saturating_sub(ASKED);
    names.truncate(ASKED);
    let and = if more > 0 { format!(" and {more} more") } else { String::new() };
    finding.message = format!("{} (pods that wait: {}{and})", finding.message, names.join(", "));
    // It is the pod that does not run, and the kubelet tries again.
    finding.milder(Severity::Warn)
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
