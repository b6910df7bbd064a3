// Package founding decides what a server of a quorum does when it starts: found the
// cluster, join it, go on with its folder, wait, or refuse. It is pure: what the folder
// holds and what the peers answered comes in, a decision comes out.
//
// The rules:
//
//	the folder      the peers                               decision
//	has served      one knows that more was acknowledged    refuse: an old folder
//	has served      one knows that the member was removed   refuse
//	has served      all that answer are of another cluster  refuse
//	served, alone   one has gone further                    refuse: an old folder
//	served, alone   one of --peers is silent or starting    wait
//	served, alone   one is led by another member            wait
//	has served      anything else, silence too              start
//	any             one shows a second process as this one  refuse
//	empty           one is of a cluster                     join it
//	empty           one has another first name              refuse
//	empty, first    all answer that they are empty too      found
//	empty           anything else                           wait
//
// A cluster is not founded twice. Only the first name founds, and only when no other
// server knows of a cluster; a server that is silent may know of one, so it is waited
// for. When the founder loses its disk before anybody has joined, it founds again: it
// has served no client (the founder serves once a majority of the names has joined).
//
// Alone: the folder has one voter, and so needs nobody to elect it. If it is a copy from
// before the cell grew, its server would keep a second cell beside the first. One that
// is alone rightly, since it founds or was recovered, has a mark.
//
// What it cannot do: a majority of folders that is set back to an earlier state shows
// nobody that there was more.
package founding
