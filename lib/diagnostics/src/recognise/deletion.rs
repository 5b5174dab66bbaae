//! What the API server says of a namespace that it is to delete.

use super::details::{Details, after, is_name};

/// Its condition, with how many objects have each: `a/b in 2 resource instances, c in 1 resource instances`.
pub(super) fn finalizers_of_others(line: &str) -> Option<Details> {
    let list = after(line, "finalizers remaining: ", &['\'', '"', '\n'])?;
    let names: Vec<&str> = list
        .split(", ")
        .filter_map(|entry| entry.split_whitespace().next())
        .filter(|name| name.contains(|c: char| c.is_ascii_alphabetic()))
        .collect();
    (!names.is_empty()).then(|| {
        let message =
            format!("the deletion of a namespace waits for finalizers of other programs: {}", names.join(", "));
        Details::message(message)
            .advice(
                "find the objects that have them, and why their program does not remove them: it has to run until they are gone; \
                 kubernetes.io/pvc-protection waits for the pods that use the volume. Only where that program is gone for good, \
                 remove the finalizers yourself",
            )
            .command(
                "kubectl api-resources --verbs=list --namespaced -o name | xargs -n 1 kubectl get -n NAMESPACE --ignore-not-found \
                 --show-kind",
            )
            .command("kubectl patch KIND NAME -n NAMESPACE --type merge -p '{\"metadata\":{\"finalizers\":null}}'")
    })
}

/// A namespace that stays, as a user sees it: the controllers say so too, of each that is deleted.
pub(super) fn being_deleted(line: &str) -> Option<Details> {
    if line.contains(".go:") {
        return None;
    }
    let namespace = after(line, "in namespace ", &[' ', '"'])
        .or_else(|| after(line, "on namespaces \"", &['"']))
        .filter(|name| is_name(name));
    let message = namespace.map_or_else(
        || "a namespace is being deleted, and takes no new objects".to_owned(),
        |namespace| format!("the namespace {namespace} is being deleted, and takes no new objects"),
    );
    Some(
        Details::message(message)
            .advice("wait until it is gone. If it stays, its conditions say what it waits for")
            .command(format!(
                "kubectl get namespace {} -o yaml | weaver explain",
                namespace.unwrap_or("NAMESPACE")
            )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_namespace_waits_for_is_named() {
        let message = |line: &str| finalizers_of_others(line).and_then(|details| details.message);
        assert_eq!(
            message(
                "    message: 'Some content in the namespace has finalizers remaining: foregroundDeletion in 1 resource \
                 instances, kubernetes.io/pvc-protection in 2 resource instances'"
            )
            .as_deref(),
            Some(
                "the deletion of a namespace waits for finalizers of other programs: foregroundDeletion, \
                 kubernetes.io/pvc-protection"
            )
        );
        assert_eq!(message("has finalizers remaining: '"), None);
        let commands = |line: &str| being_deleted(line).unwrap().remedy.unwrap().commands[0].to_string();
        let refused = "unable to create new content in namespace team because it is being terminated";
        assert_eq!(commands(refused), "kubectl get namespace team -o yaml | weaver explain");
        assert!(commands(&refused.replace("team", "$(reboot)")).contains(" NAMESPACE "));
    }
}
